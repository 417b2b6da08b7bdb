#!/bin/bash
# Prometheus comes with promtool, whose "check metrics" reads the text format that the server scrapes. Guess: the
# server scrapes a page exactly if promtool can parse the page. Seen (2.42.0): each has its own parser, and they
# differ in both directions. The server takes an unknown escape in a label value (and keeps the backslash), a last line
# without a line feed, a second TYPE or HELP line, and a TYPE line after the samples; promtool refuses all of them. The
# server fails the whole scrape for a line that begins with spaces and for a TYPE line that lacks the type; promtool
# takes both, and the description of the format says that leading blanks are ignored. Of two samples of one series the
# server keeps the first and the scrape counts as up; promtool says nothing of the second.
# Needs: apt-get install prometheus=2.42.0+ds-5+deb12u1 (Debian 12), Python 3.
set -euo pipefail
command -v prometheus >/dev/null || apt-get install -y -qq --no-install-recommends prometheus >/dev/null
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
prometheus --version 2>&1 | head -1
cat >pages.py <<'PY'
import http.server, json, subprocess, sys, threading, time, urllib.parse, urllib.request

# A page, whether promtool can parse it, whether the server's scrape succeeds, the value that is stored.
PAGES = [
    (b'a{l="x"} 1\n', True, True, '1'),
    (b'a{l="x\\q"} 1\n', False, True, '1'),
    (b'a 1', False, True, '1'),
    (b'# TYPE a counter\n# TYPE a gauge\na 1\n', False, True, '1'),
    (b'# HELP a x\n# HELP a y\na 1\n', False, True, '1'),
    (b'a 1\n# TYPE a counter\n', False, True, '1'),
    (b'  a 1\n', True, False, None),
    (b'# TYPE a\na 1\n', True, False, None),
    (b'a 1\na 2\n', True, True, '1'),
    (b'a 1\r\n', False, False, None),
]


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        text = PAGES[int(self.path[1:])][0]
        self.send_response(200)
        self.send_header('Content-Type', 'text/plain; version=0.0.4')
        self.send_header('Content-Length', str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *args):
        pass


server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Page)
threading.Thread(target=server.serve_forever, daemon=True).start()
with open('config.yml', 'w') as f:
    f.write('global: {scrape_interval: 1s}\nscrape_configs:\n')
    for i in range(len(PAGES)):
        f.write(f'- {{job_name: p{i}, metrics_path: /{i}, '
                f'static_configs: [{{targets: ["127.0.0.1:{server.server_port}"]}}]}}\n')
taken = http.server.HTTPServer(('127.0.0.1', 0), Page)
address = f'127.0.0.1:{taken.server_port}'
taken.server_close()
log = open('log', 'w')
prometheus = subprocess.Popen(['prometheus', '--config.file=config.yml', '--storage.tsdb.path=data',
                               f'--web.listen-address={address}'], stderr=log)


def ask(query):
    try:
        url = f'http://{address}/api/v1/query?query=' + urllib.parse.quote(query)
        return json.load(urllib.request.urlopen(url))['data']['result']
    except OSError:
        return []


try:
    for _ in range(60):
        time.sleep(1)
        if len(ask('count_over_time(up[1m]) > 1')) == len(PAGES):
            break
    ok = True
    for i, (text, parsed, scraped, value) in enumerate(PAGES):
        tool = subprocess.run(['promtool', 'check', 'metrics'], input=text, capture_output=True)
        up = [r['value'][1] for r in ask(f'up{{job="p{i}"}}')] == ['1']
        stored = [r['value'][1] for r in ask(f'a{{job="p{i}"}}')] or [None]
        fine = b'parsing error' not in tool.stderr
        print(f'{text}: promtool {"parses" if fine else "refuses"}, up {int(up)}, stored {stored[0]}')
        ok = ok and (fine, up, stored) == (parsed, scraped, [value])
finally:
    prometheus.kill()
    prometheus.wait()
print('as told: the two parsers differ in both directions' if ok else 'changed')
sys.exit(not ok)
PY
python3 pages.py
