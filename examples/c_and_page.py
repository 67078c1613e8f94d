"""One C file, and one page that runs the net in a browser, from a run's folder.

python examples/quickstart.py && python examples/c_and_page.py runs/quickstart
"""

import shutil
import subprocess
import sys

from gassip.deploy.native.export import to_c
from gassip.deploy.native.page import to_html

run = sys.argv[1]
print(
    to_c(run, "net.c", precision="int8", overwrite=True), flush=True
)  # as gassip export --format c
print(
    to_html(run, "net.html", overwrite=True), flush=True
)  # open it from disk: no server, no network

if compiler := shutil.which("cc"):
    subprocess.run([compiler, "-std=c99", "-O2", "-DGASSIP_MAIN", "net.c", "-o", "net"], check=True)
    subprocess.run(["./net"], check=True)  # compares its own golden rows
