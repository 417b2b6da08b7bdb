#!/bin/bash
# prom-client (npm) checks what is added to a counter: a negative number, a string and Infinity are refused, each
# with an error. Guess: NaN is refused, too, as the histogram of the same module does with undefined. Seen (15.1.3):
# it is added without an error, and the counter is NaN from then on, whatever is added later. A rate that is
# computed as 0/0 so ends a series for good. The text says "Nan", not the "NaN" of the format.
# Needs: Node.js, and npm for prom-client@15.1.3.
set -euo pipefail
command -v npm >/dev/null || { echo "cannot tell: no npm"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf $dir' EXIT
cd "$dir"
npm install --prefix . --ignore-scripts --no-audit --no-fund --silent prom-client@15.1.3 >/dev/null
echo "Node.js $(node --version), prom-client 15.1.3"
cat >seen.cjs <<'JS'
const { Counter, Registry } = require('prom-client');

(async () => {
  let ok = true;
  for (const [value, want] of [[-1, 'refused'], ['3', 'refused'], [Infinity, 'refused'], [NaN, 'Nan']]) {
    const registry = new Registry();
    const counter = new Counter({ name: 'bytes_total', help: 'bytes', registers: [registry] });
    counter.inc(1);
    let got = 'refused';
    try {
      counter.inc(value);
      counter.inc(2);
      got = /^bytes_total (.*)$/m.exec(await registry.metrics())[1];
    } catch (e) {
      console.log(`  ${e.message}`);
    }
    console.log(`1, then ${JSON.stringify(String(value))}, then 2: ${got}`);
    ok = ok && got === want;
  }
  if (!ok) {
    console.log('changed');
    process.exit(1);
  }
  console.log('as told: NaN is added, and stays');
})();
JS
node seen.cjs
