package storetest

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cronce/cronce"
)

// flawVariable gives the store in memory a flaw.
const flawVariable = "CRONCE_STORETEST_FLAW"

// TestMemory runs the suite on the store in memory.
func TestMemory(t *testing.T) {
	Run(t, func(t *testing.T) Harness { return memory(newServer(os.Getenv(flawVariable))) })
}

// TestMemoryInRealTime runs the suite as on a store whose clock cannot be
// moved: leases end when their time has passed.
func TestMemoryInRealTime(t *testing.T) {
	t.Parallel()
	Run(t, func(t *testing.T) Harness {
		s := newServer("")
		s.real, s.quarantine = true, 5*time.Second
		h := memory(s)
		h.Advance, h.Quarantine = nil, s.quarantine
		return h
	})
}

func memory(s *server) Harness {
	var clients sync.Map // of *client, by *cronce.Store
	of := func(s *cronce.Store) *client {
		c, _ := clients.Load(s)
		return c.(*client)
	}
	return Harness{
		Open: func(t *testing.T) *cronce.Store {
			c := &client{server: s}
			store := cronce.NewStore(c)
			clients.Store(store, c)
			return store
		},
		TTL:       cronce.MinTTL,
		Advance:   func(_ *testing.T, d time.Duration) { s.advance(d) },
		Conflicts: true,
		DropReply: func(_ *testing.T, s *cronce.Store) { of(s).fault(false, true) },
		Partition: func(_ *testing.T, s *cronce.Store) func() {
			of(s).fault(true, false)
			return func() { of(s).fault(false, false) }
		},
		Restart: func(*testing.T) { s.restart() },
		Forget:  func(*testing.T) { s.forget() },
		Ticks:   200,
	}
}

// flaws are ways to get a store wrong, each with the promises that must not be
// found kept.
var flaws = []struct {
	flaw   string
	breaks []string
}{
	{"a claim without the tick", []string{"DecisionOutlivesTheRun", "RandomHistories"}},
	{"a claim of two steps", []string{"TickIsDecidedOnceAmongManyAtOnce", "SkipIsRecordedOnce", "ManyClaimersManyTicks"}},
	{"a claim again is another claim", []string{"SameRunIDGetsTheSameAnswer", "ClaimWithoutReplyIsFoundAndRepeated"}},
	{"a claim again does not renew", []string{"RepeatedClaimIsARenewal"}},
	{"ticks ahead are run", []string{"TickAheadIsRefusedAndNotDecided"}},
	{"late is counted after the wait", []string{"TickThatWaitedIsNotLate"}},
	{"another definition is adopted", []string{"AnotherDefinition"}},
	{"a pause is not looked at", []string{"PausedTicksAreSkipped", "PauseCanComeBeforeTheFirstTick"}},
	{"the last pause stands", []string{"ThePauseThatWasFirstStands", "RequestWithoutReplyCanBeRepeated"}},
	{"fences restart", []string{"FencesGrow", "RandomHistories"}},
	{"fences are counted", []string{"FenceIsAtLeastTheTimeInMicroseconds", "ForgetfulStoreGivesNoLeaseUntilAllHaveEnded"}},
	{"whoever has a lease lives", []string{"HolderKilledBeforeTheTickDoesNotCostIt", "HolderThatRenewedSinceTheOfferLives"}},
	{"whoever waits lives", []string{"WaiterKilledBeforeTheTickDoesNotCostIt", "WaiterThatComesBackGoesFirst"}},
	{"whoever comes first overtakes the waiter", []string{"WaiterThatComesBackGoesFirst"}},
	{"a dead waiter keeps its place", []string{"DeadWaiterFreesItsPlace"}},
	{"renewal without the run id", []string{"LateFinisherChangesNothing", "CutOffHolderLosesItsLease", "RandomHistories"}},
	{"expiry by the host's clock", []string{"ExpiredLeaseIsNotRenewed", "LeasesEndEachByItsOwnTTL", "LostRunIsMarkedOnce", "RandomHistories"}},
	{"an expired lease that nobody took goes on", []string{"ExpiredLeaseIsNotRenewed", "RandomHistories"}},
	{"a late finisher is believed", []string{"LateFinisherChangesNothing", "CutOffHolderLosesItsLease", "RandomHistories"}},
	{"the last finish stands", []string{"FinishTwiceIsHarmless", "FinishWithoutReplyCanBeRepeated"}},
	{"lost runs are marked again", []string{"LostRunIsMarkedOnce"}},
	{"a revoked lease ends at once", []string{"RevokedLeaseKeepsOthersOutUntilItsEnd", "RevokedHoldersWordEndsItsLease", "RandomHistories"}},
	{"a revoked lease is claimed again", []string{"RevokedLeaseIsNotRenewed", "RevokedLeaseKeepsOthersOutUntilItsEnd"}},
	{"pruning re-opens ticks", []string{"PruningKeepsTicksDecided", "RandomHistories"}},
	{"pruning takes live runs", []string{"PruningSparesLiveAndLaterRuns"}},
	{"a watermark ahead blocks in silence", []string{"WatermarkAheadOfTheClockIsRefused"}},
	{"a restart loses decisions", []string{"DecisionsSurviveARestart"}},
	{"no incarnation", []string{"ForgetfulStoreSkipsWhatWasDue", "ForgetfulStoreGivesNoLeaseUntilAllHaveEnded"}},
	{"closing releases", []string{"CloseReleasesNoLease"}},
	{"who takes over is not recorded", []string{"HandedLeaseHasItsNewHolder"}},
	{"each renewal is for the default TTL", []string{"LeaseSaysWhenItEnds"}},
	{"the same definition is another", []string{"AnotherDefinition"}},
	{"who is not there is asked to stop", []string{"ThePauseThatWasFirstStands"}},
	{"lists carry output", []string{"RunIsOnRecordWithAllItReported"}},
	{"the beginning of the output is kept", []string{"LongTextsAreKeptInPart"}},
	{"names are folded", []string{"NamesAreApart"}},
	{"pruning loses the last success", []string{"PruningKeepsTicksDecided"}},
	{"orphans are runs", []string{"OnlyLeftoversMakeTheSkipOrphans"}},
	{"a catch-up tick is skipped", []string{"CatchUpTickStaysUndecidedWhileHeld"}},
	{"a replacement asks each time", []string{"ReplaceAsksTheHolderToStopAndFollowsIt"}},
	{"runs side by side have fences", []string{"AllowRunsBesideOthers"}},
	{"attempts are one decision", []string{"LostTickIsRunAgainOnce", "LostTickIsRunAgainOnceAmongMany"}},
	{"what failed is run again", []string{"OnlyALostRunIsRunAgain"}},
	{"a tick is run again beside its first run", []string{"RerunWaitsForTheFirstRunsEnd"}},
	{"a later tick does not matter", []string{"NothingIsRunAgainOnceALaterTickWasDecided"}},
	{"each slot is run again", []string{"AsManySlotsAreRunAgainAsWereLost"}},
	{"slots are one decision", []string{"SlotsOfATickAreRunsOfItsOwn"}},
	{"an overlap is allowed", []string{"NoRunStartsBesideALiveOne", "SkipNamesTheHolderAndDecidesTheTick", "RandomHistories"}},
	{"a wait never runs out", []string{"WaitRunsOut"}},
	{"each sight is the first", []string{"ForgetfulStoreGivesNoLeaseUntilAllHaveEnded"}},
	{"reads know of no leases", []string{"ReadsSayWhenALeaseEnds"}},
	{"no quarantine", []string{"ForgetfulStoreGivesNoLeaseUntilAllHaveEnded"}},
}

// TestFlawsAreFound tests the suite: a store with a flaw does not pass it, and
// what fails is named for what is wrong. A test cannot watch itself fail, so
// each flaw is tried by a process of its own.
func TestFlawsAreFound(t *testing.T) {
	for _, f := range flaws {
		t.Run(f.flaw, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], "-test.run=^TestMemory$/^("+strings.Join(f.breaks, "|")+")$", "-test.timeout=2m")
			cmd.Env = append(os.Environ(), flawVariable+"="+f.flaw)
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Fatalf("nothing was found:\n%s", out)
			}
			for _, name := range f.breaks {
				if !strings.Contains(string(out), "--- FAIL: TestMemory/"+name+" ") {
					t.Errorf("%s did not find it:\n%s", name, out)
				}
			}
		})
	}
}

// TestRulesAreTested defends that each rule of the contract that a store can
// keep has a promise, and each promise a name of its own.
func TestRulesAreTested(t *testing.T) {
	together, alone := promises(memory(newServer("")))
	seen := map[string]bool{}
	var rules []string
	for _, p := range slices.Concat(together, alone) {
		if seen[p.name] {
			t.Errorf("%s is there twice", p.name)
		}
		seen[p.name] = true
		rules = append(rules, p.rule)
	}
	contract, err := os.ReadFile("../../docs/store-contract.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(contract), "\n") {
		rule, _, ok := strings.Cut(strings.TrimPrefix(line, "**"), " ")
		if !ok || !strings.HasPrefix(line, "**") {
			continue
		}
		if !slices.Contains(rules, rule) {
			t.Errorf("no promise is for rule %s", rule)
		}
		rules = slices.DeleteFunc(rules, func(r string) bool { return r == rule })
	}
	for _, rule := range slices.Compact(slices.Sorted(slices.Values(rules))) {
		t.Errorf("docs/store-contract.md has no rule %s", rule)
	}
}
