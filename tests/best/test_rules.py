import copy
import json

from gassip.best.rules import MCNEMAR_SIGMAS


def test_a_threshold_can_be_copied_and_written() -> None:
    copied = copy.deepcopy(MCNEMAR_SIGMAS)
    assert copied == 2.0 and copied.unit == "standard errors" and copied.reason
    assert json.dumps(copied) == "2.0"
