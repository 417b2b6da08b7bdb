package launch

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"os"

	"gobtl/launch/pmi"
)

// HostName returns bytes that identify this host among the hosts of a job. The system's host name
// alone does not identify a host, because machines with the same disk image can have the same host
// name. Containers on one host count as different hosts, because their networks are separate. Two
// ranks have the same HostName only if they have the same boot id and the same network namespace,
// and thus the same loopback interface. If the host cannot be identified, HostName returns random
// bytes, so that this rank counts as the only rank on its host.
func HostName() []byte {
	name, err := os.Hostname()
	if err != nil || name == "" {
		name = rand.Text()
	}
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // both files exist only on Linux
	network, _ := os.Readlink("/proc/self/ns/net")
	return fmt.Appendf(nil, "%s %s %s", name, bytes.TrimSpace(boot), network)
}

// joinPMI connects to a launcher with PMI-1.
func (j *Job) joinPMI(ctx context.Context, env environment) (err error) {
	if env.has("PMI_FD") {
		if j.rank, j.size, err = env.place("PMI_RANK", "PMI_SIZE"); err != nil {
			return err
		}
		fd, err := env.number("PMI_FD", 3, 1<<20)
		if err != nil {
			return err
		}
		conn, err := inherited(fd)
		if err != nil {
			return err
		}
		j.link = newLink(conn)
		return nil
	}
	id, err := env.number("PMI_ID", 0, pmi.RanksMax)
	if err != nil {
		return err
	}
	dialing, cancel := context.WithTimeout(ctx, j.cfg.Timeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(dialing, "tcp", env["PMI_PORT"])
	if err != nil {
		return fmt.Errorf("%w: %w", ErrGone, err)
	}
	j.link = newLink(conn)
	m, err := j.link.ask(ctx, j.cfg.Timeout, fmt.Sprintf("cmd=initack pmiid=%d", id), "initack")
	if err == nil {
		err = j.link.accepted(m)
	}
	if err != nil {
		return err
	}
	return j.readPlace(ctx)
}

// readPlace reads the three lines that the server sends after the line cmd=initack. The three lines
// after cmd=initack contain the size of the job, the rank and the debug level, in any order.
func (j *Job) readPlace(ctx context.Context) error {
	place := map[string]int{}
	for range 3 {
		m, err := j.link.ask(ctx, j.cfg.Timeout, "", "set")
		if err != nil {
			return err
		}
		for _, key := range []string{"size", "rank", "debug"} {
			if _, ok := m.Get(key); !ok {
				continue
			}
			if place[key], err = m.Int(key, 0, pmi.RanksMax); err != nil {
				return j.link.broken(err)
			}
		}
	}
	j.rank, j.size = place["rank"], place["size"]
	if _, told := place["rank"]; !told || j.rank >= j.size {
		return j.link.broken(fmt.Errorf("rank %d of %d", j.rank, j.size))
	}
	return nil
}
