package crontab

import "errors"

// Rejoin makes a job of its lines, when they have come from another process:
// encoding/gob keeps all of a line that a job is made of.
func Rejoin(lines []*Line) (*Job, error) {
	if len(lines) == 0 {
		return nil, errors.New("a job has at least one line")
	}
	j := &Job{Job: lines[0].Job, Lines: lines}
	for _, l := range lines {
		if l.Reboot {
			continue
		}
		var err error
		if l.schedule, err = l.Job.Parse(); err != nil {
			return nil, err
		}
		if j.timed == nil {
			j.timed = l
		}
	}
	j.unite()
	return j, nil
}
