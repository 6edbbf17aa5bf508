# SPDX-License-Identifier: Apache-2.0
"""The whole suite in its order: what is quick and basic comes first."""
import sys

import runner

# Each registers its tests.
import line_test  # noqa: F401
import job_test  # noqa: F401
import crash_test  # noqa: F401
import network_test  # noqa: F401
import input_test  # noqa: F401

if __name__ == "__main__":
    sys.exit(runner.main())
