// SPDX-License-Identifier: Apache-2.0
// The protocol between a coordinator and its agents: one cell of a job, one budget, two agents. Coordinator and agents
// crash, streams break, anyone is slow for as long as it likes, and a twin of the coordinator is started on a copy of
// its data while the first goes on. docs/MODEL.md maps each step to its function.
//
// What is one step here, and why that loses nothing. A report is applied when it arrives, and until then it is on its
// agent's disk: one that is under way is one that was not sent yet, and a lost acknowledgement is one that is sent
// again. A heartbeat counts from its send for the agent and from its arrival for the coordinator, so the case with no
// delay between them is the worst. An assignment is the one message whose delay matters: it lies in `pending`.
//
// The claims are asserted where they could break:
//   P1  what is spent and could still be spent never passes the limit, and never falls short of the true bill
//   P2  no create before its durable mark and its reservation; what lives is known to its agent's disk
//   P3  a cell is accepted once, and by its newest generation
//   P7  an agent obeys no ledger that lacks what it has seen, and no older incarnation
//   I1  one agent at most is inside the hold of the cell
//
// A fault is planted with -D: tests/model/model.py wants each to be found.

#define AGENTS      2
#ifndef GENERATIONS
#define GENERATIONS 3
#endif
#define LIMIT       2 // of the budget; a run costs 1
#ifndef HOLD
#define HOLD        2 // ticks that an agent goes on after the send of a heartbeat that was acknowledged
#endif
#ifndef FENCE
#define FENCE       3 // ticks of silence after which the coordinator assigns again: hold * 1.05 + 5 s
#endif
#define NOBODY      7
#define NOWHERE     7

mtype = { NONE, CREATING, DISPATCHING, SEEN, NEVER }; // a lease on its agent's disk; the last two: retired, and how
mtype = { OPEN, SETTLED, RELEASED };                  // a reservation in the ledger

#define AT(a, g)    ((a) * (GENERATIONS + 1) + (g))
#define LEASE(a, g) lease[AT(a, g)]
#define ALIVE(a, g) alive[AT(a, g)]
#define TOLD(a, g)  told[AT(a, g)]
#define MONEY(c, g) money[AT(c, g)]

// --- coordinators: 0 the first, 1 the twin. In the ledger: ---
bool exists[2];
byte number[2], nonce[2]; // the incarnation
byte generation[2], holder[2], accepted[2], charged[2], reserved[2];
bool running[2];
mtype money[2 * (GENERATIONS + 1)];
// Volatile:
bool serving[2];
byte fence[2];

// --- agents. On the disk: ---
mtype lease[AGENTS * (GENERATIONS + 1)];
bool told[AGENTS * (GENERATIONS + 1)]; // the end of the lease was acknowledged
byte result[AGENTS];                   // generation of a finished run that is not acknowledged; 0: none
byte obeyed[AGENTS], obeyed_nonce[AGENTS];
bool saw_first[AGENTS], saw_twin[AGENTS]; // an event that only that ledger has
// Volatile:
byte stream[AGENTS];  // the coordinator that it is in session with
byte pending[AGENTS]; // generation of an assignment that it has not read yet; 0: none
byte grant[AGENTS];   // ticks that are left of the heartbeat which the coordinator had last when it assigned
byte has[AGENTS], owner[AGENTS]; // generation that it runs, 0: none; the coordinator that assigned it
byte hold[AGENTS];    // ticks left

// --- the world ---
bool alive[AGENTS * (GENERATIONS + 1)]; // containers
byte bill[2];                           // what really was created under a coordinator's ledger
bool branched;                          // the first has committed what the twin's copy lacks
byte nonces, coordinator_crashes, agent_crashes, breaks;

inline committed(c)
{
	if :: c == 0 && exists[1] -> branched = true :: else fi
}

inline check_money(c)
{
	assert(charged[c] + reserved[c] <= LIMIT);          // P1
	assert(bill[c] <= charged[c] + reserved[c])         // P1
}

inline check_hold()
{
	assert(!(has[0] && has[1] && hold[0] && hold[1] && owner[0] == owner[1])) // I1
}

inline see(a)
{
	if
	:: stream[a] == 0 && branched -> saw_first[a] = true
	:: stream[a] == 1 -> saw_twin[a] = true
	:: else
	fi
}

inline hang_up(a)
{
	stream[a] = NOWHERE;
	pending[a] = 0;
	grant[a] = 0
}

// Kills what there is of the generation, proves it, and writes that down.
inline retire(a, g)
{
	if
	:: LEASE(a, g) == CREATING && !ALIVE(a, g) -> LEASE(a, g) = NEVER
	:: LEASE(a, g) == DISPATCHING -> ALIVE(a, g) = false; LEASE(a, g) = SEEN
	:: else
	fi
}

// Hello and Welcome.
inline connect(a, c)
{
	if
	:: obeyed[a] > number[c] -> serving[c] = false // it hears of a higher incarnation
#ifdef PLANT_OBEY_ANYBODY
	:: else ->
#else
	:: (number[c] == obeyed[a] && nonce[c] == obeyed_nonce[a]) ||
		(number[c] > obeyed[a] && (c == 0 -> !saw_twin[a] : !saw_first[a])) ->
#endif
		assert(number[c] > obeyed[a] || (number[c] == obeyed[a] && nonce[c] == obeyed_nonce[a])); // P7
		assert(c == 0 -> !saw_twin[a] : !saw_first[a]);                                         // P7
		obeyed[a] = number[c];
		obeyed_nonce[a] = nonce[c];
		stream[a] = c;
		see(a)
#ifndef PLANT_OBEY_ANYBODY
	:: else // refused, and said by both sides
#endif
	fi
}

inline beat(a, c)
{
	hold[a] = (hold[a] && owner[a] == c -> HOLD : hold[a]); // one that is over stays over
	fence[c] = (running[c] && holder[c] == a && has[a] == generation[c] -> FENCE : fence[c]);
	see(a);
	check_hold()
}

// A lease's end, applied by the coordinator: reservation and lease in one batch.
inline report_end(a, c, g)
{
	if
	:: MONEY(c, g) == OPEN ->
		reserved[c]--;
		if
#ifdef PLANT_REFUND
		:: true -> MONEY(c, g) = RELEASED
#else
		:: LEASE(a, g) == NEVER -> MONEY(c, g) = RELEASED
		:: else -> MONEY(c, g) = SETTLED; charged[c]++
#endif
		fi;
		check_money(c);
		committed(c)
	:: else
	fi;
	// The trial that it was for runs again elsewhere.
	if
	:: running[c] && holder[c] == a && g == generation[c] && result[a] != g -> running[c] = false; committed(c)
	:: else
	fi;
	if :: see(a); TOLD(a, g) = true :: true fi // the acknowledgement comes, or is lost
}

inline report_result(a, c)
{
	if
#ifdef PLANT_ANY_GENERATION
	:: MONEY(c, result[a]) == SETTLED ->
#else
	:: MONEY(c, result[a]) == SETTLED && running[c] && holder[c] == a && result[a] == generation[c] ->
#endif
		accepted[c]++;
		assert(accepted[c] == 1);             // P3
		assert(result[a] == generation[c]);   // P3
		running[c] = false;
		committed(c)
	:: else // fenced off
	fi;
	if :: see(a); result[a] = 0 :: true fi
}

#define ENDED(a, g) (LEASE(a, g) == SEEN || LEASE(a, g) == NEVER)

proctype Agent(byte a)
{
	byte g;
	do
	:: atomic { stream[a] == NOWHERE && serving[0] -> connect(a, 0) }
	:: atomic { stream[a] == NOWHERE && serving[1] -> connect(a, 1) }
	:: atomic { stream[a] != NOWHERE && has[a] -> beat(a, stream[a]) }
	// An assignment arrives: too late when its hold is over.
	:: atomic { pending[a] ->
		g = pending[a];
		pending[a] = 0;
		see(a);
		if
		:: !has[a] && LEASE(a, g) == NONE ->
#ifdef PLANT_HOLD_FROM_RECEIPT
			grant[a] = HOLD;
#endif
			if
			:: grant[a] ->
				has[a] = g;
				owner[a] = stream[a];
				hold[a] = grant[a];
				LEASE(a, g) = CREATING;
				check_hold()
			:: else -> LEASE(a, g) = NEVER
			fi
		:: else
		fi;
		grant[a] = 0;
		g = 0 }
	// The run: a mark on the disk, the create, the end.
#ifdef PLANT_CREATE_BEFORE_MARK
	:: atomic { has[a] && hold[a] && LEASE(a, has[a]) == CREATING && !ALIVE(a, has[a]) ->
		ALIVE(a, has[a]) = true;
		bill[owner[a]]++;
		check_money(owner[a]) }
	:: atomic { has[a] && LEASE(a, has[a]) == CREATING && ALIVE(a, has[a]) -> LEASE(a, has[a]) = DISPATCHING }
#else
	:: atomic { has[a] && hold[a] && LEASE(a, has[a]) == CREATING -> LEASE(a, has[a]) = DISPATCHING }
	:: atomic { has[a] && hold[a] && LEASE(a, has[a]) == DISPATCHING && !ALIVE(a, has[a]) ->
		assert(MONEY(owner[a], has[a]) == OPEN); // P2
		ALIVE(a, has[a]) = true;
		bill[owner[a]]++;
		check_money(owner[a]) }
#endif
	:: atomic { has[a] && LEASE(a, has[a]) == DISPATCHING && ALIVE(a, has[a]) && !result[a] ->
		retire(a, has[a]);
		result[a] = has[a];
		has[a] = 0;
		hold[a] = 0 }
	// The hold is over: kill and retire, no result.
	:: atomic { has[a] && !hold[a] -> retire(a, has[a]); has[a] = 0 }
	// What is on the disk and not acknowledged is reported, in order: ends of leases before results.
	:: atomic { stream[a] != NOWHERE && ENDED(a, 1) && !TOLD(a, 1) -> report_end(a, stream[a], 1) }
	:: atomic { stream[a] != NOWHERE && ENDED(a, 2) && !TOLD(a, 2) -> report_end(a, stream[a], 2) }
#if GENERATIONS > 2
	:: atomic { stream[a] != NOWHERE && ENDED(a, 3) && !TOLD(a, 3) -> report_end(a, stream[a], 3) }
#endif
	:: atomic { stream[a] != NOWHERE && result[a] && TOLD(a, result[a]) -> report_result(a, stream[a]) }
	:: atomic { breaks < BREAKS && stream[a] != NOWHERE -> breaks++; hang_up(a) }
	// kill -9, and the start after it: all of the past is dead before it says Hello.
	:: atomic { agent_crashes < AGENT_CRASHES ->
		agent_crashes++;
		hang_up(a);
		has[a] = 0;
		hold[a] = 0;
		g = 1;
		do
		:: g <= GENERATIONS -> retire(a, g); assert(!ALIVE(a, g)); g++ // P2
		:: else -> break
		od;
		g = 0 }
	od
}

#define IDLE(a, c) (stream[a] == c && !pending[a] && !has[a])

inline assign(a, c)
{
	holder[c] = a;
	pending[a] = generation[c];
	grant[a] = HOLD
}

proctype Coordinator(byte c)
{
#ifdef PLANT_REPLY_BEFORE_SYNC
	bool unsynced;
#endif
	do
#ifdef PLANT_NO_FENCE
	:: atomic { serving[c] && running[c] && stream[holder[c]] != c -> running[c] = false; committed(c) }
#else
	// Silence for the whole fence: the trial is nobody's.
	:: atomic { serving[c] && running[c] && !fence[c] -> running[c] = false; committed(c) }
#endif
	// Placement: generation, reservation and assignment in one batch, told after its sync.
	:: atomic { serving[c] && !running[c] && !accepted[c] && generation[c] < GENERATIONS &&
#ifdef PLANT_REPLY_BEFORE_SYNC
		!unsynced &&
#endif
#ifndef PLANT_NO_LIMIT
		charged[c] + reserved[c] < LIMIT &&
#endif
		(IDLE(0, c) || IDLE(1, c)) ->
#ifdef PLANT_REPLY_BEFORE_SYNC
		unsynced = true;
		generation[c]++;
		if :: IDLE(0, c) -> assign(0, c) :: IDLE(1, c) -> assign(1, c) fi;
		generation[c]-- }
	:: atomic { unsynced -> unsynced = false;
#endif
		generation[c]++;
		running[c] = true;
		fence[c] = FENCE;
		MONEY(c, generation[c]) = OPEN;
		reserved[c]++;
		check_money(c);
		committed(c);
#ifndef PLANT_REPLY_BEFORE_SYNC
		if :: IDLE(0, c) -> assign(0, c) :: IDLE(1, c) -> assign(1, c) fi
#endif
		}
	// kill -9 and a start: the number grows, the fence begins anew, every stream is gone.
	:: atomic { exists[c] && coordinator_crashes < COORDINATOR_CRASHES ->
		coordinator_crashes++;
#ifdef PLANT_REPLY_BEFORE_SYNC
		unsynced = false;
#endif
		if :: stream[0] == c -> hang_up(0) :: else fi;
		if :: stream[1] == c -> hang_up(1) :: else fi;
		number[c]++;
		nonces++;
		nonce[c] = nonces;
		serving[c] = true;
#ifdef PLANT_NO_FENCE_AFTER_START
		fence[c] = 0;
#else
		fence[c] = FENCE;
#endif
		committed(c) }
	od
}

// A copy of the data as it is now, and a coordinator on it.
proctype Twin()
{
	byte g;
	atomic {
		exists[0] ->
		exists[1] = true;
		serving[1] = true;
		number[1] = number[0] + 1;
		nonces++;
		nonce[1] = nonces;
		generation[1] = generation[0];
		holder[1] = holder[0];
		accepted[1] = accepted[0];
		running[1] = running[0];
		charged[1] = charged[0];
		reserved[1] = reserved[0];
		bill[1] = bill[0];
		fence[1] = FENCE;
		g = 1;
		do
		:: g <= GENERATIONS -> MONEY(1, g) = MONEY(0, g); g++
		:: else -> break
		od;
		g = 0
	}
}

proctype Time()
{
	do
	:: atomic { fence[0] || fence[1] || hold[0] || hold[1] || grant[0] || grant[1] ->
		fence[0] = (fence[0] -> fence[0] - 1 : 0);
		fence[1] = (fence[1] -> fence[1] - 1 : 0);
		hold[0] = (hold[0] -> hold[0] - 1 : 0);
		hold[1] = (hold[1] -> hold[1] - 1 : 0);
		grant[0] = (grant[0] -> grant[0] - 1 : 0);
		grant[1] = (grant[1] -> grant[1] - 1 : 0) }
	od
}

init
{
	byte i;
	atomic {
		exists[0] = true;
		serving[0] = true;
		number[0] = 1;
		nonces = 1;
		nonce[0] = 1;
		holder[0] = NOBODY;
		holder[1] = NOBODY;
		stream[0] = NOWHERE;
		stream[1] = NOWHERE;
		i = 0;
		do
		:: i < AGENTS * (GENERATIONS + 1) -> lease[i] = NONE; money[i] = NONE; i++
		:: else -> break
		od;
		i = 0;
		run Agent(0);
#ifndef ALONE
		run Agent(1);
#endif
		run Coordinator(0);
		run Time();
#ifdef TWIN
		run Coordinator(1);
		run Twin()
#endif
	}
}
