"""The methods by name (known.py), what a method offers (protocols.py), and its settings
(settings.py). None of these imports torch."""

from gassip.methods.known import METHODS as METHODS
from gassip.methods.known import Entry as Entry
from gassip.methods.known import entry as entry
from gassip.methods.protocols import Method as Method
from gassip.methods.protocols import Resumer as Resumer
from gassip.methods.protocols import Searcher as Searcher
from gassip.methods.protocols import SharesSearch as SharesSearch
from gassip.methods.protocols import StartsFromPlan as StartsFromPlan
from gassip.methods.settings import changed as changed
from gassip.methods.settings import parsed as parsed
from gassip.methods.settings import plain_settings as plain_settings
