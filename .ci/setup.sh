#!/usr/bin/env bash
# Installs what some tests compare with, where that is possible: PyTorch of
# Debian. Tests that need it say so and are skipped where it is missing.
set -uo pipefail
cd "$(dirname "$0")/.."
[ -d ../shared ] || echo "../shared is not here: the tests that read it are skipped" >&2
have_torch() { /usr/bin/python3 -c 'import torch' >/dev/null 2>&1; }
if have_torch || [ -n "${CONVERT_NO_SETUP:-}" ]; then exit 0; fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "python3-torch is not installed: tests that compare with PyTorch are skipped" >&2
  exit 0
fi
echo "installing python3-torch for the tests that compare with PyTorch" >&2
export DEBIAN_FRONTEND=noninteractive
timeout 600 sh -c 'apt-get -qq update && apt-get -qq -y --no-install-recommends install python3-torch' >/dev/null 2>&1 ||
  echo "python3-torch could not be installed: tests that compare with PyTorch are skipped" >&2
exit 0
