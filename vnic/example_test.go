package vnic_test

import (
	"bytes"
	"fmt"
	"log"
	"time"

	"gobtl/btl"
	"gobtl/vnic"
)

// An Ethernet frame travels inside of a packet, behind a Header.
func ExampleHeader() {
	frame := bytes.Repeat([]byte{0xaa}, 60)
	header := vnic.Header{SLID: 1, DLID: 2, VESW: 100}
	packet, err := header.Append(nil, frame)
	if err != nil {
		log.Fatal(err)
	}
	got, inside, err := vnic.Parse(packet)
	fmt.Println(len(packet), "bytes, switch", got.VESW, bytes.Equal(inside, frame), err)
	// Output: 88 bytes, switch 100 true <nil>
}

// A MAC address is a number.
func ExampleMAC() {
	mac, err := vnic.ParseMAC("02:00:00:00:00:2a")
	fmt.Println(mac, uint64(mac), err)
	// Output: 02:00:00:00:00:2a 2199023255594 <nil>
}

// A PathSearch finds out what the path to another host carries. This path carries 1400 bytes.
func ExamplePathSearch() {
	number := uint64(0)
	search := vnic.NewPathSearch(func() uint64 { number++; return number }) // a program: crypto/rand
	search.SetMost(0, 1472)
	for now := btl.Time(0); now < btl.Time(10*time.Second); now = search.Due() {
		for _, probe := range search.Probes(now, nil) {
			if probe.Bytes <= 1400 { // otherwise the probe is lost
				search.Answered(now, probe.Number)
			}
		}
	}
	fmt.Println(search.Bytes())
	// Output: 1352 true
}

// hosts returns a manager with its plan and the agents of two hosts, by connection.
func hosts() (*vnic.Manager, map[int]*vnic.Agent) {
	plan := &vnic.Plan{
		Hosts: []vnic.PlanHost{{Name: "a", LID: 1}, {Name: "b", LID: 2}},
		Switches: []vnic.PlanSwitch{{
			Name: "blue", ID: 5, Ports: []vnic.PlanPort{{Host: "a"}, {Host: "b"}},
		}},
	}
	if err := plan.Complete(); err != nil {
		log.Fatal(err)
	}
	manager := vnic.NewManager(vnic.ManagerConfig{Name: "lab", Instance: 1})
	manager.SetPlan(plan)
	agents := map[int]*vnic.Agent{}
	for i, host := range plan.Hosts {
		name := []byte(host.Name)
		agents[i+1] = vnic.NewAgent(vnic.AgentConfig{
			Host: host.Name, Manager: "lab", Instance: 2,
			Ways: vnic.Ways{Receive: [][]byte{name}, Send: [][]byte{name}, Module: name},
		})
		agents[i+1].Connect(i + 1)
	}
	return manager, agents
}

// settle passes messages between the manager and the agents. In a program a Station does that, by
// package btl.
func settle(now btl.Time, manager *vnic.Manager, agents map[int]*vnic.Agent) {
	for range 100 {
		manager.Progress(now)
		for _, message := range manager.Outbox() {
			agents[message.Conn].Receive(now, message.Conn, message.Data)
		}
		for conn, agent := range agents {
			for _, message := range agent.Outbox() {
				manager.Receive(now, conn, message.Data)
			}
		}
	}
}

// A Manager configures the Agents of the hosts in its Plan.
func ExampleManager() {
	manager, agents := hosts()
	settle(1, manager, agents)
	for _, host := range manager.Hosts() {
		fmt.Println(host.Name, "has its configuration:", host.Synced)
	}
	port := agents[1].Port(1)
	fmt.Println("port 1 of a is on switch", port.Info.VESW, "with", port.Members)
	// Output:
	// a has its configuration: true
	// b has its configuration: true
	// port 1 of a is on switch 5 with [1 2]
}

// The Tables of a port say where a frame goes. A program gets them from its Agent.
func ExampleTables() {
	manager, agents := hosts()
	settle(1, manager, agents)
	agents[1].SetLink(1, 1, true) // The device of port 1 is up.
	settle(1, manager, agents)
	tables := agents[1].Port(1).Tables
	fmt.Println("host 2 is a member:", tables.Member(2))

	egress := vnic.NewEgress(new(vnic.FDB), new(vnic.Neighbours), nil, 1)
	egress.SetTables(tables)
	frame := append(vnic.MACFor(5, 2).Bytes(), vnic.MACFor(5, 1).Bytes()...)
	frame = append(frame, make([]byte, 48)...)
	decision := egress.Forward(1, frame, len(frame))
	fmt.Println(decision.Verdict, "to host", decision.Header.DLID)
	// Output:
	// host 2 is a member: true
	// unicast to host 2
}

// An FDB is what a port has learned from frames: which host has an address.
func ExampleFDB() {
	var learned vnic.FDB
	learned.Configure(vnic.Options{}.WithDefaults())
	learned.Learn(1, 0x02000000002a, 0, 7) // a frame without a VLAN came from host 7
	for _, entry := range learned.Entries(2) {
		fmt.Println(entry.MAC, "is at host", entry.LID)
	}
	// Output: 02:00:00:00:00:2a is at host 7
}

// A MACTable has the addresses that the manager knows.
func ExampleMACTable() {
	table, err := vnic.NewMACTable(1, []vnic.MACEntry{{MAC: 0x02000000002a, DLID: 7}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(table.Lookup(0x02000000002a))
	// Output: 7 true
}

// An Order gives the trains of a flow in the order in which they were sent.
func ExampleOrder() {
	order := vnic.NewOrder(time.Millisecond)
	var room vnic.OrderRoom // shared with the Orders of other peers
	room.Admit(order)
	for _, seq := range []uint32{0, 2, 1} {
		order.Take(1, vnic.Train{Seq: seq}, []byte{byte(seq)}, func(packets []byte) {
			fmt.Println("train", packets[0])
		})
	}
	// Output:
	// train 0
	// train 1
	// train 2
}
