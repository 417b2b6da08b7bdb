#!/bin/bash
# unpack.sh SUITE FOLDER PACKAGE...: unpacks packages of a Debian release and all that they depend on
# into FOLDER/root, from the archive that apt of this machine is set to use. Nothing is installed.
# Prints the version of the first package.
set -euo pipefail
suite=$1 folder=$2
shift 2
uri=$(apt-get indextargets --format '$(REPO_URI) $(SUITE)' 'Created-By: Packages' 'Component: main' |
  awk '$1 ~ /\/debian\/?$/ {print $1; exit}')
[ -n "$uri" ] || { echo "unpack.sh: apt of this machine has no Debian archive" >&2; exit 3; }
mkdir -p "$folder"/{state/lists/partial,cache/archives/partial,root}
folder=$(cd "$folder" && pwd)
touch "$folder/status"
key=/usr/share/keyrings/debian-archive-keyring.gpg
echo "deb [signed-by=$key] $uri $suite main" > "$folder/sources.list"
apt=(-qq -o "Dir::State=$folder/state" -o "Dir::State::status=$folder/status"
  -o "Dir::Cache=$folder/cache" -o "Dir::Etc::SourceList=$folder/sources.list"
  -o Dir::Etc::SourceParts=- -o APT::Sandbox::User=root -o Debug::NoLocking=1)
apt-get "${apt[@]}" update >&2
apt-get "${apt[@]}" install --download-only -y --no-install-recommends "$@" >&2
for deb in "$folder"/cache/archives/*.deb; do
  dpkg-deb -x "$deb" "$folder/root"
done
dpkg-deb -f "$folder/cache/archives/$1"_*.deb Version
