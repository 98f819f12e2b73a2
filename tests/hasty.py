"""One of wardround's programs as it is, but for the pauses before a program that died is started again.

    python tests/hasty.py wardround.consortium.site_start FOLDER NAME

A test kills the same process several times within a minute; the pauses that are right for one that keeps dying by
itself would be most of what such a test takes.
"""

import runpy
import sys

from wardround.engines import processes

if __name__ == "__main__":
    processes.PAUSES = (0.2,)
    program = sys.argv.pop(1)
    runpy.run_module(program, run_name="__main__", alter_sys=True)
