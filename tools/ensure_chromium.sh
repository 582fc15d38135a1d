#!/usr/bin/env bash
# Succeeds if there is a Chromium to look at reports with; installs Debian's package if it is missing and that is allowed.
set -euo pipefail

has_chromium() {
  command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null
}

install_chromium() {
  local as_root=()
  if [[ $(id -u) -ne 0 ]]; then
    sudo -n true 2>/dev/null || return 1
    as_root=(sudo -n)
  fi
  command -v apt-get >/dev/null || return 1
  echo "Chromium is missing: installing chromium ..."
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y chromium >/dev/null ||
    { "${as_root[@]}" apt-get update -qq &&
      "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y chromium >/dev/null; }
}

has_chromium || { install_chromium && has_chromium; }
