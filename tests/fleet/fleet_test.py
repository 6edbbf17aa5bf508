# SPDX-License-Identifier: Apache-2.0
"""The whole suite in its order: what is quick and basic comes first."""
import sys

import line_test  # noqa: F401  (each registers its tests)
import runner

if __name__ == "__main__":
    sys.exit(runner.main())
