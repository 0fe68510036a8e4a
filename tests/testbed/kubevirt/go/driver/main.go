// SPDX-License-Identifier: Apache-2.0

// Command driver calls hooks as KubeVirt does: its own pipeline of domain
// hooks, its own caller of node hooks, and libvirtxml, which stands between.
package main

import (
	"encoding/json"
	"encoding/xml"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"k8s.io/client-go/tools/cache"
	"libvirt.org/go/libvirtxml"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	v1 "kubevirt.io/api/core/v1"
	pluginv1alpha1 "kubevirt.io/api/plugin/v1alpha1"

	cmdv1 "kubevirt.io/kubevirt/pkg/handler-launcher-com/cmd/v1"
	plugincel "kubevirt.io/kubevirt/pkg/plugins/cel"
	virtconfig "kubevirt.io/kubevirt/pkg/virt-config"
	nodeplugins "kubevirt.io/kubevirt/pkg/virt-handler/plugins"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/api"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/converter"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/converter/arch"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/converter/translate"
	convertertypes "kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/converter/types"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/plugins"
	domaincel "kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/plugins/cel"
)

// found is what is printed, as JSON.
type found struct {
	// XML is what would be defined.
	XML string `json:"xml,omitempty"`
	// Spec is what KubeVirt keeps of it for itself.
	Spec string `json:"spec,omitempty"`
	// Domains and Nodes are whether the conditions of each hook hold.
	Domains []bool `json:"domains,omitempty"`
	Nodes   []bool `json:"nodes,omitempty"`
	Error   string `json:"error,omitempty"`
}

var (
	pluginFile = flag.String("plugin", "", "a Plugin, JSON")
	vmiFile    = flag.String("vmi", "", "a VirtualMachineInstance, JSON")
	domainFile = flag.String("domain", "", "a domain, XML")
	invocation = flag.String("context", "Boot", "why domain hooks are called")
	point      = flag.String("point", "PreVMStart", "point of node hooks")
	nodeName   = flag.String("node", "node-1", "name of the node")
	goNames    = flag.String("gonames", "no", "virt-handler has Go's names, as in 1.10")
	cpuList    = flag.String("cpus", "", "CPUs of the pod, with commas between")
)

func main() {
	flag.Parse()
	acts := map[string]func() (found, error){
		"conditions": conditions,
		"convert":    convert,
		"node":       node,
		"pipeline":   pipeline,
		"roundtrip":  roundtrip,
	}
	act, known := acts[flag.Arg(0)]
	if !known {
		fmt.Fprintln(os.Stderr, "conditions, convert, node, pipeline or roundtrip expected")
		os.Exit(2)
	}
	result, err := act()
	if err != nil {
		result.Error = err.Error()
	}
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
		panic(err)
	}
}

func read(path string) []byte {
	data, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		panic(err)
	}
	return data
}

func plugin() pluginv1alpha1.Plugin {
	var result pluginv1alpha1.Plugin
	if err := json.Unmarshal(read(*pluginFile), &result); err != nil {
		panic(err)
	}
	return result
}

func vmi() *v1.VirtualMachineInstance {
	result := &v1.VirtualMachineInstance{}
	if err := json.Unmarshal(read(*vmiFile), result); err != nil {
		panic(err)
	}
	return result
}

func spec() *api.DomainSpec {
	result := &api.DomainSpec{}
	if err := xml.Unmarshal(read(*domainFile), result); err != nil {
		panic(err)
	}
	return result
}

func pipeline() (found, error) {
	updated, text, err := plugins.ApplyDomainHooks(
		[]pluginv1alpha1.Plugin{plugin()}, vmi(), spec(),
		pluginv1alpha1.InvocationContext(*invocation))
	if err != nil {
		return found{}, err
	}
	kept, err := xml.Marshal(updated)
	return found{XML: text, Spec: string(kept)}, err
}

func roundtrip() (found, error) {
	data, err := io.ReadAll(os.Stdin)
	if err != nil {
		return found{}, err
	}
	domain := &libvirtxml.Domain{}
	if err := domain.Unmarshal(string(data)); err != nil {
		return found{}, err
	}
	text, err := domain.Marshal()
	if err != nil {
		return found{}, err
	}
	kept, err := translate.FromLibvirtDomain(domain)
	if err != nil {
		return found{XML: text}, err
	}
	own, err := xml.Marshal(kept)
	return found{XML: text, Spec: string(own)}, err
}

// conditions evaluates each condition where KubeVirt does: that of the Plugin in
// virt-launcher and, since release-1.9 of August 2026, in virt-handler, too.
func conditions() (found, error) {
	result := found{}
	domain, err := translate.ToLibvirtDomain(spec())
	if err != nil {
		return result, err
	}
	given, instance := plugin(), vmi()
	launcher := func(condition string) (bool, error) {
		return domaincel.GetEvaluator().EvaluateCondition(
			condition, instance, domain)
	}
	handler := launcher
	if *goNames == "no" {
		nodes, err := plugincel.NewEvaluator()
		if err != nil {
			return result, err
		}
		handler = func(condition string) (bool, error) {
			return nodes.EvaluateCondition(
				condition, map[string]any{"vmi": instance})
		}
	}
	for _, hook := range given.Spec.DomainHooks {
		holds, err := all(launcher, given.Spec.Condition, hook.Condition)
		if err != nil {
			return result, fmt.Errorf("virt-launcher: %w", err)
		}
		result.Domains = append(result.Domains, holds)
	}
	for _, hook := range given.Spec.NodeHooks {
		holds, err := all(handler, given.Spec.Condition, hook.Condition)
		if err != nil {
			return result, fmt.Errorf("virt-handler: %w", err)
		}
		result.Nodes = append(result.Nodes, holds)
	}
	return result, nil
}

// all returns whether conditions hold; one that is not set does.
func all(holds func(string) (bool, error), conditions ...string) (bool, error) {
	for _, condition := range conditions {
		if condition == "" {
			continue
		}
		if held, err := holds(condition); err != nil || !held {
			return false, err
		}
	}
	return true, nil
}

func node() (found, error) {
	config, err := clusterConfig()
	if err != nil {
		return found{}, err
	}
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	given := plugin()
	if err := store.Add(&given); err != nil {
		return found{}, err
	}
	manager, err := nodeplugins.NewNodeHookManager(store, config)
	if err != nil {
		return found{}, err
	}
	return found{}, manager.CallNodeHooks(
		pluginv1alpha1.NodeHookPoint(*point), vmi(), *nodeName)
}

// clusterConfig returns a configuration with the feature gate Plugins.
func clusterConfig() (*virtconfig.ClusterConfig, error) {
	kubevirts := cache.NewSharedIndexInformer(
		&cache.ListWatch{}, &v1.KubeVirt{}, 0, nil)
	crds := cache.NewSharedIndexInformer(
		&cache.ListWatch{}, &extv1.CustomResourceDefinition{}, 0, nil)
	kv := &v1.KubeVirt{}
	kv.Name, kv.Namespace = "kubevirt", "kubevirt"
	kv.ResourceVersion = "1"
	kv.Status.Phase = v1.KubeVirtPhaseDeployed
	kv.Spec.Configuration.DeveloperConfiguration = &v1.DeveloperConfiguration{
		FeatureGates: []string{"Plugins"},
	}
	if err := kubevirts.GetStore().Add(kv); err != nil {
		return nil, err
	}
	return virtconfig.NewClusterConfig(crds, kubevirts, "kubevirt")
}

// convert renders the domain of a VMI in a pod that has some CPUs.
func convert() (found, error) {
	instance := vmi()
	v1.SetObjectDefaults_VirtualMachineInstance(instance)
	cell := &cmdv1.Cell{
		Memory: &cmdv1.Memory{Amount: 8 << 20, Unit: "KiB"},
		Pages:  []*cmdv1.Pages{{Size: 2048, Count: 4096, Unit: "KiB"}},
	}
	context := &convertertypes.ConverterContext{
		AllowEmulation:            true,
		Architecture:              arch.NewConverter("amd64"),
		HypervisorDeviceAvailable: true,
		HypervisorName:            "kvm",
		SMBios:                    &cmdv1.SMBios{},
		Topology:                  &cmdv1.Topology{NumaCells: []*cmdv1.Cell{cell}},
		VirtualMachine:            instance,
	}
	for _, text := range strings.Split(*cpuList, ",") {
		number, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return found{}, err
		}
		context.CPUSet = append(context.CPUSet, int(number))
		cell.Cpus = append(cell.Cpus, &cmdv1.CPU{Id: uint32(number)})
	}
	domain := &api.Domain{}
	err := converter.Convert_v1_VirtualMachineInstance_To_api_Domain(
		instance, domain, context)
	if err != nil {
		return found{}, err
	}
	api.NewDefaulter("amd64").SetObjectDefaults_Domain(domain)
	text, err := xml.Marshal(domain.Spec)
	return found{XML: string(text)}, err
}
