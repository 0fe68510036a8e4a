module sriov-rt.test/absent/libnbd

go 1.26.0
