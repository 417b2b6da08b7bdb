#!/bin/bash
# iperf3 -u numbers its datagrams, and its server tells how many were lost. Guess: a network that loses every tenth
# datagram shows 10 %, whatever else it does. Seen (iperf3 3.12): a datagram that comes twice counts as one that came
# late, and each late one is taken off the lost ones, so every tenth lost and every tenth doubled is told as 0 lost,
# 0 %. Doubled ones alone are "received out-of-order" in the server's text, although every datagram came in order, and
# make the received bytes more than the sent ones. The client's JSON has out_of_order 0 all the same. A lossy path
# with duplicates, as of a flapping or bonded link, so looks clean.
# Needs: python3, apt-get install iperf3=3.12-1+deb12u2 (Debian 12).
set -euo pipefail
command -v iperf3 >/dev/null || apt-get install -y -qq --no-install-recommends iperf3 >/dev/null
dir=$(mktemp -d)
trap 'rm -rf $dir' EXIT
cd "$dir"
iperf3 --version | head -1
cat >path.py <<'PY'
import json, re, select, socket, subprocess, sys, threading

# A path between an iperf3 client and its server on the loopback: TCP passes as it is; of ten datagrams of the test
# one is lost, or one is doubled.


def copy(a, b):
    try:
        while data := a.recv(65536):
            b.sendall(data)
        b.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def control(listener, port):
    while True:
        here, _ = listener.accept()
        there = socket.create_connection(('127.0.0.1', port))
        for pair in ((here, there), (there, here)):
            threading.Thread(target=copy, args=pair, daemon=True).start()


def datagrams(here, port, lose, double):
    there = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    there.connect(('127.0.0.1', port))
    client, n = None, 0
    while True:
        for s in select.select([here, there], [], [])[0]:
            if s is there:
                here.sendto(s.recv(65536), client)
                continue
            data, client = s.recvfrom(65536)
            n += 1
            if lose and n % 10 == 5:
                continue
            there.send(data)
            if double and n % 10 == 0:
                there.send(data)


def measure(lose, double):
    free = socket.create_server(('127.0.0.1', 0))
    port = free.getsockname()[1]
    free.close()
    server = subprocess.Popen(['iperf3', '-s', '-1', '-p', str(port), '--forceflush'], stdout=subprocess.PIPE, text=True)
    text = ''
    while 'listening' not in text:
        text += server.stdout.readline()
    listener = socket.create_server(('127.0.0.1', 0))
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(listener.getsockname())
    threading.Thread(target=control, args=(listener, port), daemon=True).start()
    threading.Thread(target=datagrams, args=(udp, port, lose, double), daemon=True).start()
    out = subprocess.run(['iperf3', '-c', '127.0.0.1', '-p', str(listener.getsockname()[1]), '-u', '-b', '1M', '-l',
                          '500', '-t', '2', '-J'], capture_output=True, text=True, timeout=30).stdout
    end = json.loads(out)['end']
    late = re.search(r'(\d+) datagrams received out-of-order', text + server.communicate()[0])
    return {
        'lost %': round(end['sum_received']['lost_percent']),
        'more bytes received than sent': end['sum_received']['bytes'] > end['sum_sent']['bytes'] * 1.05,
        'the server tells of late ones': late is not None,
        'out_of_order of the client': end['streams'][0]['udp']['out_of_order'],
    }


def row(*values):
    return dict(zip(('lost %', 'more bytes received than sent', 'the server tells of late ones',
                     'out_of_order of the client'), values))


ok = True
for name, lose, double, want in (
    ('all come once', False, False, row(0, False, False, 0)),
    ('every tenth is lost', True, False, row(10, False, False, 0)),
    ('every tenth comes twice', False, True, row(0, True, True, 0)),
    ('every tenth is lost, and every tenth comes twice', True, True, row(0, False, True, 0)),
):
    got = measure(lose, double)
    print(f'{name}: {got}')
    ok = ok and got == want
print('as told: with as many duplicates, 10 % of loss are 0' if ok else 'changed')
sys.exit(not ok)
PY
python3 path.py
