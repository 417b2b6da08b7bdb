#!/bin/bash
# package.sh FOLDER: builds a Debian package of the programs in FOLDER, without root and without a
# network: static binaries, manual pages, completions for three shells, the licences. Prints its name.
set -euo pipefail
folder=$1
arch=$(dpkg --print-architecture)
# A tree that was copied without its repository has the time of the build as its version.
version=0~$(git -c safe.directory='*' log -1 --date=format:%Y%m%d%H%M%S --format=%cd.%h 2>/dev/null ||
  date -u +%Y%m%d%H%M%S)
root=$folder/root
rm -rf "$root"
mkdir -p "$root"/{DEBIAN,usr/bin,usr/share/{man/man1,doc/gobtl,bash-completion/completions}} \
  "$root"/usr/share/{zsh/vendor-completions,fish/vendor_completions.d}
CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o "$root/usr/bin/" ./cmd/...
for program in "$root"/usr/bin/*; do
  name=${program##*/}
  "$program" --man | gzip -9n > "$root/usr/share/man/man1/$name.1.gz"
  "$program" --completion bash > "$root/usr/share/bash-completion/completions/$name"
  "$program" --completion zsh > "$root/usr/share/zsh/vendor-completions/_$name"
  "$program" --completion fish > "$root/usr/share/fish/vendor_completions.d/$name.fish"
done
cp -r NOTICE README.md docs "$root/usr/share/doc/gobtl/"
cp LICENSE "$root/usr/share/doc/gobtl/copyright"
cat > "$root/DEBIAN/control" <<T
Package: gobtl
Version: $version
Architecture: $arch
Section: net
Priority: optional
Maintainer: the gobtl authors <gobtl@localhost>
Installed-Size: $(du -sk "$root/usr" | cut -f1)
Description: reliable transport over unreliable datagrams: its programs
 btlbench, btlrun, btlstream, btlvnic and mpibench, without libfabric.
T
chmod -R u=rwX,go=rX "$root"
package=$folder/gobtl_${version}_$arch.deb
dpkg-deb --root-owner-group --build "$root" "$package" >&2
echo "$package"
