package main

const helpDemo = `usage: cronce demo crons|notices

Replays a night that really happened, without and with cronce, in less than a
minute: real processes, and counts of what they did. It needs no root and no
server, and works in a temporary folder, which it removes, after Ctrl-C too.

  crons     a server with a cron inside became four, so each update went out four
            times; with cronce once, also when one of the four is killed
  notices   an hourly batch took longer than its hour, so copies of it sent the same
            rows up to three times; with cronce once, and the skips are on record

Exit 0 when the counts are as promised, 1 when they are not. More: docs/demo.md.
`
