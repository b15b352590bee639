"""``python -m code_execution_mcp.server stdio``: the same as ``python -m agentkernel.server stdio``."""

from __future__ import annotations

import sys

from agentkernel.server import main, run_server

__all__ = ["main", "run_server"]

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
