module sriov-rt.test/roundtrip

go 1.20

require libvirt.org/go/libvirtxml v1.12002.0
