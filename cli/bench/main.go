//go:build linux

// Command bench measures the program as a user runs it, beside `cp -r`
// followed by `sync` of the same bytes, in pairs, and prints the medians of the
// ratios. It writes seeded checkpoints below a folder and needs about four
// times the size of the largest.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// task is one conversion that is measured.
type task struct {
	name string
	src  string   // name of the input
	set  []string // over its job
	goal float64  // of the ratio, 0 for none
}

// input is a seeded checkpoint.
type input struct {
	name string
	args []string
}

func main() {
	dir := flag.String("dir", ".cache/bench", "folder for inputs and outputs")
	bin := flag.String("convert", "bin/convert", "the program")
	pairs := flag.Int("n", 5, "pairs of runs")
	sizes := flag.String("sizes", "1 GiB,6 GiB", "sizes of the model, in bytes")
	only := flag.String("only", "", "measure tasks whose name contains this")
	flag.Parse()
	if err := run(*dir, *bin, *pairs, strings.Split(*sizes, ","), *only); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(dir, bin string, pairs int, sizes []string, only string) error {
	bin, err := filepath.Abs(bin)
	if err != nil {
		return err
	}
	fmt.Printf("%-34s %5s %8s %8s %22s %6s %10s %8s\n", "task", "cache", "cp s", "ours s", "ratio (min … max)", "goal", "CPU s/GiB", "RSS MiB")
	for _, size := range sizes {
		size = strings.TrimSpace(size)
		plain := input{name: strings.ReplaceAll(size, " ", "") + "-sharded", args: []string{"--size", size, "--mesh", "dp=2,tp=4", "--to", "dp=2,tp=2"}}
		twice := input{name: strings.ReplaceAll(size, " ", "") + "-replicated", args: []string{"--size", size, "--mesh", "dp=2,tp=4", "--to", "dp=2,tp=2", "--optimizer-shard", "0", "--to-optimizer-shard", "0"}}
		for _, in := range []input{plain, twice} {
			if in.name == twice.name {
				half(&in, size)
			}
			tasks := []task{{name: size + " 8 → 4", src: in.name, goal: 0.8}}
			if in.name == plain.name {
				tasks = append(tasks,
					task{name: size + " 8 → 4, f32 → bf16", src: in.name, set: []string{"target.dtype=bf16"}},
					task{name: size + " 8 → 4, SHA-256", src: in.name, set: []string{"verify.sha256=true"}, goal: 1.2},
				)
			} else {
				tasks[0].name, tasks[0].goal = size+" 8 → 4, two replicas", 0.5
			}
			tasks = slices.DeleteFunc(tasks, func(t task) bool { return !strings.Contains(t.name, only) })
			if len(tasks) == 0 {
				continue
			}
			if err := measureInput(dir, bin, pairs, in, tasks); err != nil {
				return err
			}
		}
	}
	return nil
}

// half halves the model of an input whose bytes are all written twice, so that
// the files have the size that is asked for.
func half(in *input, size string) {
	var n float64
	var unit string
	if _, err := fmt.Sscanf(size, "%g %s", &n, &unit); err == nil {
		in.args[1] = fmt.Sprintf("%d MiB", int(n*1024)/2)
	}
}

func measureInput(dir, bin string, pairs int, in input, tasks []task) error {
	root := filepath.Join(dir, in.name)
	if err := os.RemoveAll(root); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(root)
	if _, err := timed(exec.Command(bin, append([]string{"generate", root, "-q"}, in.args...)...)); err != nil {
		return err
	}
	for _, t := range tasks {
		for _, cold := range []bool{false, true} {
			if err := measure(root, bin, pairs, t, cold); err != nil {
				return err
			}
		}
	}
	return nil
}

// usage is what one run took.
type usage struct {
	wall, cpu float64
	rss       int64
}

func measure(root, bin string, pairs int, t task, cold bool) error {
	out, cp := filepath.Join(root, "out"), filepath.Join(root, "cp")
	src := filepath.Join(root, "src")
	var ratio, ours, theirs, cpu []float64
	var rss int64
	for i := range pairs + 1 { // the first pair warms up and is not counted
		for _, d := range []string{out, cp} {
			if err := os.RemoveAll(d); err != nil {
				return err
			}
		}
		syscall.Sync()
		if err := cache(src, cold); err != nil {
			return err
		}
		a, err := timed(exec.Command("sh", "-c", `cp -r "$0" "$1" && sync`, src, cp))
		if err != nil {
			return err
		}
		if err := os.RemoveAll(cp); err != nil {
			return err
		}
		syscall.Sync()
		if err := cache(src, cold); err != nil {
			return err
		}
		args := []string{"-f", filepath.Join(root, "job.toml"), "-q"}
		for _, s := range t.set {
			args = append(args, "--set", s)
		}
		b, err := timed(exec.Command(bin, args...))
		if err != nil {
			return err
		}
		if i == 0 {
			continue
		}
		theirs, ours = append(theirs, a.wall), append(ours, b.wall)
		ratio = append(ratio, b.wall/a.wall)
		cpu = append(cpu, b.cpu/gib(out))
		rss = max(rss, b.rss)
	}
	slices.Sort(ratio)
	goal := ""
	if t.goal > 0 {
		goal = fmt.Sprintf("%.2f", t.goal)
	}
	fmt.Printf("%-34s %5s %8.2f %8.2f %22s %6s %10.2f %8d\n", t.name, map[bool]string{true: "cold", false: "warm"}[cold], median(theirs), median(ours),
		fmt.Sprintf("%.2f (%.2f … %.2f)", median(ratio), ratio[0], ratio[len(ratio)-1]), goal, median(cpu), rss>>10)
	return nil
}

// timed runs a command and gives what it took.
func timed(c *exec.Cmd) (usage, error) {
	c.Stderr = os.Stderr
	start := time.Now()
	if err := c.Run(); err != nil {
		return usage{}, fmt.Errorf("%s: %w", strings.Join(c.Args, " "), err)
	}
	u := usage{wall: time.Since(start).Seconds(), cpu: (c.ProcessState.UserTime() + c.ProcessState.SystemTime()).Seconds()}
	if r, ok := c.ProcessState.SysUsage().(*syscall.Rusage); ok {
		u.rss = r.Maxrss
	}
	return u, nil
}

func median(v []float64) float64 {
	v = slices.Clone(v)
	slices.Sort(v)
	return v[len(v)/2]
}

// gib is the size of the files below a folder.
func gib(dir string) float64 {
	var n int64
	_ = filepath.WalkDir(dir, func(p string, e os.DirEntry, err error) error { // what is missing counts as nothing
		if err == nil && !e.IsDir() {
			if i, err := e.Info(); err == nil {
				n += i.Size()
			}
		}
		return nil
	})
	return float64(n) / (1 << 30)
}
