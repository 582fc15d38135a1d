#!/usr/bin/env bash
# Succeeds if there is a Chromium to look at reports with; installs Debian's package if it is missing and that is allowed.
set -euo pipefail

has_chromium() {
  command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null
}

has_chromium || { "$(dirname "$0")/install_debian.sh" Chromium chromium && has_chromium; }
