#!/bin/bash
# parse-prometheus-text-format (npm) makes objects of Prometheus's text format, and puts the lines of a histogram or
# a summary together. Guess: a histogram with a label, once for each peer, gives an object for each peer, as a
# counter with a label does. Seen (1.1.1): all come out as one object without labels, in which the last peer's
# buckets stand; sum and count are gone, and so are the other peers. No error. A histogram without labels is right.
# Needs: Node.js, and npm for parse-prometheus-text-format@1.1.1.
set -euo pipefail
command -v npm >/dev/null || { echo "cannot tell: no npm"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf $dir' EXIT
cd "$dir"
npm install --prefix . --ignore-scripts --no-audit --no-fund --silent parse-prometheus-text-format@1.1.1 >/dev/null
echo "Node.js $(node --version), parse-prometheus-text-format 1.1.1"
cat >seen.cjs <<'JS'
const parse = require('parse-prometheus-text-format');

const text = `# TYPE sends counter
sends{peer="a"} 1
sends{peer="b"} 2
# TYPE plain histogram
plain_bucket{le="1"} 3
plain_bucket{le="+Inf"} 4
plain_sum 9
plain_count 4
# TYPE latency histogram
latency_bucket{peer="a",le="1"} 1
latency_bucket{peer="a",le="+Inf"} 2
latency_sum{peer="a"} 7
latency_count{peer="a"} 2
latency_bucket{peer="b",le="1"} 5
latency_bucket{peer="b",le="+Inf"} 6
latency_sum{peer="b"} 8
latency_count{peer="b"} 6
`;
const seen = {};
for (const family of parse(text)) {
  seen[family.name] = JSON.stringify(family.metrics);
  console.log(`${family.name}: ${seen[family.name]}`);
}
const right = JSON.parse(seen.sends).length === 2 && JSON.parse(seen.plain)[0].count === '4';
if (!right || seen.latency !== '[{"buckets":{"1":"5","+Inf":"6"}}]') {
  console.log('changed');
  process.exit(1);
}
console.log('as told: the histograms of all peers come out as one, without labels, sum and count');
JS
node seen.cjs
