package crontab_test

import (
	"fmt"
	"strings"

	"github.com/cronce/cronce/crontab"
)

func Example() {
	const text = `MAILTO=ops
# cronce: name=nightly overlap=skip timeout=50m
0 2 * * *  /usr/local/bin/backup
30 25 * * * report
`
	file, err := crontab.Parse(strings.NewReader(text), crontab.Options{Path: "tab", Zone: "UTC"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, job := range file.Jobs {
		fmt.Println(job.Name, "at", job.Schedule, "runs", job.Lines[0].Command, "with", job.Lines[0].Env)
	}
	for _, err := range file.Errors {
		fmt.Println(err)
	}
	// Output:
	// nightly at 0 2 * * * runs /usr/local/bin/backup with [MAILTO=ops]
	// tab:4:4: hour field: 25 is not in 0-23
}
