"""`gassip.runtime`: predictions from a run's folder with numpy and scipy alone
(gassip.deploy.runtime)."""

import sys

from gassip.deploy.labelling import main as main
from gassip.deploy.runtime import Model as Model
from gassip.deploy.runtime import load as load

if __name__ == "__main__":
    sys.exit(main())
