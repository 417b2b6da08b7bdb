#!/bin/bash
# test.sh FOLDER: builds the image of FOLDER, which context.sh has made, with buildah, and runs the
# programs of the image as its user. Root runs the script. The build has no network: in the place of
# the image of Go, the script makes an image of this machine's Go and shell, and lends it this
# machine's build cache. The script stores everything in FOLDER.store, and removes that at the end.
set -euo pipefail
folder=$(cd "$1" && pwd)
store=$folder.store
rm -rf "$store"
mkdir -p "$store"
b() { buildah --root "$store/root" --runroot "$store/run" --storage-driver vfs "$@"; }
trap 'b rm --all >/dev/null 2>&1 || true; rm -rf "$store"' EXIT

echo "container: an image with this machine's Go"
base=$store/base
mkdir -p "$base/usr/local" "$base/tmp"
cp -r "$(go env GOROOT)" "$base/usr/local/go"
for program in sh cp cat mkdir; do
  file=$(readlink -f "$(command -v $program)")
  install -D "$file" "$base/bin/$program"
  for library in $(ldd "$file" | grep -o '/[^ ]*'); do
    install -D "$library" "$base$library"
  done
done
go=$(b from scratch)
b copy --quiet "$go" "$base" / >/dev/null
b config --env PATH=/usr/local/go/bin:/bin --env GOCACHE=/tmp/cache "$go"
b commit --quiet --rm "$go" localhost/go >/dev/null
rm -rf "$base"

echo "container: the image of the programs"
unshare --net buildah --root "$store/root" --runroot "$store/run" --storage-driver vfs \
  build --quiet --isolation chroot --volume "$(go env GOCACHE):/tmp/cache" --build-arg GO=localhost/go --tag gobtl "$folder"

c=$(b from localhost/gobtl)
in_image() { b run --isolation chroot "$c" -- "$@"; }
expect() { # expect TEXT COMMAND...: the output of the command has the text
  local want=$1 out=$store/output
  shift
  in_image "$@" > "$out" || { echo "container: $*: status $?" >&2; exit 1; } # a pipe can lose output
  grep -qF -- "$want" "$out" || { echo "container: $* lacks $want:" >&2; cat "$out" >&2; exit 1; }
  echo "container: $*"
}
expect "$(cat "$folder/VERSION")" btlrun --version
expect "Usage: btlbench" $(b inspect --type image --format '{{range .OCIv1.Config.Cmd}}{{.}} {{end}}' localhost/gobtl)
expect "udp" btlbench info
expect '"iterations": 200' btlbench pair --provider net --test lat --size 8 --iterations 200 --format json
expect "btlrun $(cat "$folder/VERSION")" btlrun -n 2 btlrun --version
