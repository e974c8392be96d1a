package main

import (
	"fmt"
	"reflect"
	"time"
)

// params are what the model does not decide. The tags have the value, what it is, and where it
// comes from: "here" is a benchmark on this project's machine of two cores, "code" is in this
// repository, "kubernetes" is its documentation, and "guess" is an assumption.
type params struct {
	OpenCPU   time.Duration `is:"4ms" what:"CPU of a replica for one open and its end" from:"here: BenchmarkPostgres/life, 1.9 ms; and as much for HTTP, a guess"`
	RoundTrip time.Duration `is:"500us" what:"round trip from a replica to PostgreSQL" from:"guess: one zone of a cloud"`
	Statement time.Duration `is:"50us" what:"CPU of PostgreSQL for a statement" from:"here: BenchmarkPostgres/life, 34 statements"`
	Flush     time.Duration `is:"2ms" what:"flush of PostgreSQL's log, which commits share" from:"guess: a network disk"`
	BeatRow   time.Duration `is:"18us" what:"CPU of PostgreSQL for one workspace of a heartbeat" from:"here: BenchmarkPostgres/beat, without the scan"`
	ScanRow   time.Duration `is:"2us" what:"CPU of PostgreSQL for one record of a scan" from:"here: BenchmarkPostgres/list"`
	DecodeRow time.Duration `is:"10us" what:"CPU of a replica for one record of a scan" from:"here: BenchmarkPostgres/list"`
	DBCores   int           `is:"16" what:"cores of PostgreSQL" from:"guess: a large instance"`
	Conns     int           `is:"16" what:"connections of a replica to PostgreSQL" from:"code: registry, postgresConns"`
	Cores     int           `is:"4" what:"cores of a replica" from:"guess: limit of the manifests"`
	Lease     time.Duration `is:"10s" what:"lease of a replica; a heartbeat is due each third" from:"code: daemon/app, replicaLease"`
	ScanEvery time.Duration `is:"5s" what:"interval of the search for idle workspaces" from:"code: registry, ExpireEvery"`

	ClientQPS   float64       `is:"200" what:"calls of the API server a second, of a replica" from:"code: provider/kubernetes, QPS"`
	OpenCalls   int           `is:"10" what:"such calls to open a workspace" from:"code: provider/kubernetes, counted"`
	EndCalls    int           `is:"8" what:"such calls to end one" from:"code: provider/kubernetes, counted"`
	APICall     time.Duration `is:"10ms" what:"one call of the API server" from:"guess: etcd with three members"`
	BindQPS     float64       `is:"50" what:"pods that the scheduler binds a second" from:"kubernetes: kube-scheduler, default of clientConnection.qps"`
	PodsPerNode int           `is:"110" what:"pods of a node" from:"kubernetes: default, and largest that is supported"`
	PodStart    time.Duration `is:"1600ms" what:"start of a pod on its node, image present; half of it is exponential" from:"here: one node"`
	NodeStarts  int           `is:"4" what:"pods that a node starts at once" from:"guess: its cores; the kubelet has no limit"`
	Claim       time.Duration `is:"20ms" what:"claim of a warm pod" from:"guess: it is connected already; one command by the API server"`
	Missing     float64       `is:"0.02" what:"share of pods whose node pulls the image, one at a time" from:"guess: new nodes, rare images"`
	Image       float64       `is:"300e6" unit:"B" what:"size of an image" from:"guess: a language with its tools, compressed"`
	NodeLink    float64       `is:"250e6" unit:"B/s" what:"bandwidth of a node for a pull" from:"guess: 2 Gbit/s"`
	PullLinks   int           `is:"50" what:"nodes that the image registry serves at that speed" from:"guess: 100 Gbit/s in all"`

	Snapshots  float64 `is:"0.5" what:"share of workspaces that end with a snapshot" from:"guess: half are thrown away"`
	Snapshot   float64 `is:"5e6" unit:"B" what:"new bytes of a snapshot" from:"guess: sources and results, deduplicated"`
	Egress     float64 `is:"5e3" unit:"B/s" what:"network traffic of a live workspace, mean" from:"guess: packages, then nothing for long"`
	Stream     float64 `is:"50e6" unit:"B/s" what:"one stream through an API server" from:"guess: SPDY over TLS"`
	APIServers int     `is:"3" what:"API servers of a cluster" from:"guess: one for each zone"`
	APIServer  float64 `is:"1e9" unit:"B/s" what:"what an API server relays" from:"guess: TLS on some of its cores"`

	NodeHour    float64       `is:"0.40" unit:"$" what:"a node (4 cores, 32 GB) for an hour" from:"guess: list prices of large clouds, rounded up"`
	ReplicaHour float64       `is:"0.20" unit:"$" what:"a replica for an hour" from:"guess: 4 cores, 8 GB"`
	DBHour      float64       `is:"1.60" unit:"$" what:"PostgreSQL for an hour" from:"guess: 16 cores, with a standby"`
	APIHour     float64       `is:"0.80" unit:"$" what:"an API server with etcd for an hour" from:"guess: 16 cores"`
	EgressGB    float64       `is:"0.02" unit:"$" what:"a GB of traffic" from:"guess: most of it comes in, which is free"`
	StoredGB    float64       `is:"0.023" unit:"$" what:"a GB in a bucket for a month" from:"guess: list price of S3"`
	Keep        time.Duration `is:"720h" what:"how long a snapshot is kept" from:"code: default of snapshots.maxAge"`
}

// defaults returns the values of the tags.
func defaults() (p params) {
	v := reflect.ValueOf(&p).Elem()
	for i := range v.NumField() {
		text := v.Type().Field(i).Tag.Get("is")
		var err error
		if d, ok := v.Field(i).Addr().Interface().(*time.Duration); ok {
			*d, err = time.ParseDuration(text)
		} else {
			_, err = fmt.Sscan(text, v.Field(i).Addr().Interface())
		}
		if err != nil {
			panic(err) // the tags are constants
		}
	}
	return p
}

// bytesText returns a number of bytes with a unit.
func bytesText(n float64) string {
	unit := ""
	for _, unit = range []string{"", "k", "M", "G"} {
		if n < 1000 {
			break
		}
		n /= 1000
	}
	return fmt.Sprintf("%.3g %sB", n, unit)
}
