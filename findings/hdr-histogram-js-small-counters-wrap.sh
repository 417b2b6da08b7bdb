#!/bin/bash
# hdr-histogram-js (npm) counts in counters of 8, 16, 32 or 64 bits, by the option bitBucketSize: fewer bits save
# memory. Guess: a counter of 16 bits that is full stays full, or recordValue throws. Seen (3.0.1): it wraps to 0 in
# silence, while totalCount goes on. After 70000 latencies of 5 and one of 900 the median is 0, a value that was
# never recorded. Counters of 32 bits give 5.
# Needs: Node.js, and npm for hdr-histogram-js@3.0.1.
set -euo pipefail
command -v npm >/dev/null || { echo "cannot tell: no npm"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf $dir' EXIT
cd "$dir"
npm install --prefix . --ignore-scripts --no-audit --no-fund --silent hdr-histogram-js@3.0.1 >/dev/null
echo "Node.js $(node --version), hdr-histogram-js 3.0.1"
cat >seen.cjs <<'JS'
const hdr = require('hdr-histogram-js');

const seen = {};
for (const bits of [8, 16, 32, 64]) {
  const histogram = hdr.build({
    bitBucketSize: bits,
    highestTrackableValue: 1000000,
    numberOfSignificantValueDigits: 3,
  });
  for (let i = 0; i < 70000; i++) histogram.recordValue(5);
  histogram.recordValue(900);
  const median = histogram.getValueAtPercentile(50);
  seen[bits] = [histogram.totalCount, median].join();
  console.log(`${bits} bits: ${histogram.totalCount} values, median ${median}`);
}
if (seen[8] !== '70001,0' || seen[16] !== '70001,0' || seen[32] !== '70001,5' || seen[64] !== '70001,5') {
  console.log('changed');
  process.exit(1);
}
console.log('as told: counters of 8 and 16 bits wrap, and the median is 0');
JS
node seen.cjs
