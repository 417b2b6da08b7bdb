#!/bin/bash
# context.sh FOLDER: makes the folder from which an image of the programs is built: the files of the
# tree that git knows (in a tree without a repository: all), the modules on which they depend, the
# version. Needs no network if the modules are in Go's cache, and no root.
set -euo pipefail
folder=$1
rm -rf "$folder"
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
files() {
  git -c safe.directory='*' ls-files -z -- '*.go' go.mod go.sum 'cmd/*' 'fabric/*' internal LICENSE NOTICE \
    2>/dev/null || find . -path ./bin -prune -o \( -name '*.go' -o -path './cmd/*' -o -path './fabric/*' \
    -o -path './internal/*' -o -path ./go.mod -o -path ./go.sum -o -path ./LICENSE -o -path ./NOTICE \) \
    -type f -print0
}
files | tar --null --files-from=- --create | tar --extract --directory "$folder"
go mod vendor -o "$folder/vendor"
version=$(git -c safe.directory='*' rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
[ -z "$(git -c safe.directory='*' status --porcelain --untracked-files=no 2>/dev/null)" ] || version+=+changes
echo "$version" > "$folder/VERSION"
cp tools/container/Containerfile "$folder/Dockerfile"
echo "$folder"
