"""The inputs of a search: small dataclasses per part, each field with its help and range."""

from gassip.settings.presets import PRESETS as PRESETS
from gassip.settings.presets import preset as preset
from gassip.settings.settings import Settings as Settings
