#!/usr/bin/env bash
# Installs one of Debian's packages where that is allowed: tools/install_debian.sh WHAT PACKAGE
set -euo pipefail
what=$1 package=$2

as_root=()
if [[ $(id -u) -ne 0 ]]; then
  sudo -n true 2>/dev/null || exit 1
  as_root=(sudo -n)
fi
command -v apt-get >/dev/null || exit 1
echo "$what is missing: installing $package ..."
install() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y "$package" >/dev/null; }
install || { "${as_root[@]}" apt-get update -qq && install; }
