package kube

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation"
)

const page = "../../docs/how-to/kubernetes.md"

var block = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// decode decodes a YAML document as the API server does. An unknown or repeated field is an error.
func decode(t *testing.T, document []byte) (runtime.Object, error) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		apps.AddToScheme, core.AddToScheme, networking.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	codecs := serializer.NewCodecFactory(scheme, serializer.EnableStrict)
	object, _, err := codecs.UniversalDeserializer().Decode(document, nil, nil)
	return object, err
}

// TestPage: Kubernetes knows each field of the page's YAML. The parts refer to each other rightly.
func TestPage(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var service *core.Service
	var set *apps.StatefulSet
	for _, found := range block.FindAllSubmatch(text, -1) {
		for document := range bytes.SplitSeq(found[1], []byte("---\n")) {
			object, err := decode(t, document)
			if err != nil {
				t.Fatalf("%v in\n%s", err, document)
			}
			switch object := object.(type) {
			case *core.Service:
				service = object
			case *apps.StatefulSet:
				set = object
			default:
				t.Errorf("the test does not know a %T", object)
			}
		}
	}
	if service == nil || set == nil {
		t.Fatal("the page has no Service, or no StatefulSet")
	}
	if service.Spec.ClusterIP != core.ClusterIPNone || set.Spec.ServiceName != service.Name {
		t.Error("the Service must be headless, and the StatefulSet's own")
	}
	for key, value := range service.Spec.Selector {
		if set.Spec.Template.Labels[key] != value || set.Spec.Selector.MatchLabels[key] != value {
			t.Errorf("the pods lack %s=%s", key, value)
		}
	}
	var ports []int32
	for _, p := range service.Spec.Ports {
		ports = append(ports, p.Port)
		if p.Protocol != core.ProtocolUDP || len(validation.IsValidPortName(p.Name)) > 0 {
			t.Errorf("port %+v", p)
		}
	}
	var open []int32
	for _, c := range set.Spec.Template.Spec.Containers {
		for _, p := range c.Ports {
			open = append(open, p.ContainerPort)
		}
	}
	if !slices.Equal(ports, []int32{4000, 4001}) || !slices.Equal(open, ports) {
		t.Errorf("ports %v of the Service, %v of the pods; want gobtl's two", ports, open)
	}
	if name := set.Name + "-0." + service.Name; !strings.Contains(string(text), "`"+name+":4000`") {
		t.Errorf("the page does not dial %s:4000", name)
	}
}

// TestDecode: the decoder sees what is wrong.
func TestDecode(t *testing.T) {
	const head = "apiVersion: v1\nkind: Service\nmetadata: {name: store}\n"
	for text, bad := range map[string]string{
		head + "spec: {clusterIP: None}\n":                     "",
		head + "spec: {clusterIp: None}\n":                     "clusterIp",
		head + "spec: {ports: [{port: many}]}\n":               "int32",
		head + "spec: {clusterIP: None, clusterIP: None}\n":    "clusterIP",
		"apiVersion: v9\nkind: Service\nmetadata: {name: x}\n": "v9",
	} {
		_, err := decode(t, []byte(text))
		if (err != nil) != (bad != "") || err != nil && !strings.Contains(err.Error(), bad) {
			t.Errorf("%s\n%v, want %q", text, err, bad)
		}
	}
}
