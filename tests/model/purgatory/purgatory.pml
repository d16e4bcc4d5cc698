/* purgatory.pml - the life of one delayed operation on two keys, for spin.
 *
 * What src/purgatory does with an operation's state word, its links, its owner's inbox and timer, step by step and under the
 * same names; each atomic { } is one atomic exchange, or one step under a lock, of the C code. Processes: the owner's thread,
 * a thread that parks (or the owner does, by choice), one that publishes and checks a key, one that checks the other key
 * without cause, one that cancels by key. Whether there is a deadline, a shutdown, an event, a cancel is chosen first, so
 * that one cannot hide that another was lost.
 *
 * Always: answered at most once [OP-1]; then linked nowhere, no timer, nobody inside [OP-2] [PRG-1]; nothing touched after [OP-5];
 * in the inbox or the queue at most once [OWN-1]; one thread inside try_complete [OP-9].
 * In the end, when nothing moves any more: answered, if anything has happened that must answer it [OP-3] [OWN-2].
 * With -DLIVE the same as a property of fair infinite runs, in place of the look at the end.
 *
 * -DBUG_<NAME> plants a bug; test_model.py says which there are. */

#define KEYS 2
#define NOBODY 0
#define OWNER 1 /* 'self' of the owner's thread */

/* The operation: its state word, ... */
bool parked, parking, checking, recheck, done;
byte refs;
/* ... its nodes, under the lock of each key's shard, ... */
bool linked[KEYS];
bool locked[KEYS];
/* ... its timer and place in a queue. */
bool armed, is_ready, is_posted;

/* The owner. */
bool asleep, woken, closing;

/* The published state that try_complete looks at. */
bool state_ready;

/* What was chosen, and what the properties speak of. */
bool is_own, has_deadline, has_shutdown, has_event, has_cancel;
bool told; /* the event is published and its check has returned */
bool cancelled; /* the cancel was first */
bool gone; /* the memory is the caller's again */
byte answers, inside;

inline lock(k) { atomic { !locked[k] -> locked[k] = true } }
inline unlock(k) { locked[k] = false }
inline touch() { assert(!gone) }

/* The end of the operation's life here: by on_complete, or by PURG_DONE. */
inline answer()
{
    atomic {
        assert(answers == 0); /* [OP-1] */
        assert(!linked[0] && !linked[1]); /* [PRG-1] */
        assert(!armed && inside == 0); /* [OP-2] */
        answers++;
        gone = true
    }
}

/* purg_owner_post */
inline post()
{
    atomic {
        touch();
        assert(!is_posted && !is_ready); /* [OWN-1] */
        is_posted = true;
        if
        :: asleep -> asleep = false; woken = true
        :: else
        fi
    }
}

/* purg_owner_ready */
inline make_ready()
{
    atomic {
        touch();
        assert(!is_posted && !is_ready); /* [OWN-1] */
        is_ready = true /* the timer, if any, still runs */
    }
}

/* purg_op_unref */
inline unref(self)
{
    atomic { touch(); assert(refs > 0); refs--; is_last = done && refs == 0 }
    if
    :: is_last && self == OWNER -> make_ready()
    :: is_last && self != OWNER -> post()
    :: else
    fi
}

/* purg_unlink_all */
inline unlink_all()
{
    lock(0); touch(); linked[0] = false; unlock(0);
    lock(1); touch(); linked[1] = false; unlock(1)
}

/* purg_op_begin_end */
inline begin_end()
{
    atomic {
        touch();
        is_first = parked && !done;
        if
        :: is_first -> was_parking = parking; done = true; refs++
        :: else
        fi
    }
}

/* purg_op_finish_end */
inline finish_end(self)
{
#ifdef BUG_UNLINK_LATE /* lets go before it has unlinked */
    unref(self);
    if
    :: !was_parking -> unlink_all()
    :: else
    fi
#else
    if
#ifdef BUG_PARKING /* unlinks although the parking thread still links */
    :: true -> unlink_all()
#else
    :: !was_parking -> unlink_all()
#endif
    :: else
    fi;
    unref(self)
#endif
}

mtype = { WON, LOST, WAITS, AGAIN };

/* try_until_settled: 'drop' references are given up with CHECKING. */
inline try_until_settled(drop)
{
    do
    :: atomic { touch(); inside++; assert(inside == 1) } /* [OP-9] */
       is_complete = state_ready;
       atomic {
           touch();
           inside--
       }
       atomic {
           touch();
           if
           :: done -> verdict = LOST
           :: !done && is_complete -> done = true; verdict = WON
#ifdef BUG_RECHECK /* leaves in spite of RECHECK */
           :: !done && !is_complete -> checking = false; parking = false; recheck = false; refs = refs - drop; verdict = WAITS
#else
           :: !done && !is_complete && recheck -> recheck = false; verdict = AGAIN
           :: !done && !is_complete && !recheck -> checking = false; parking = false; refs = refs - drop; verdict = WAITS
#endif
           fi
       }
       if
       :: verdict != AGAIN -> break
       :: else
       fi
    od
}

/* purg_op_check */
inline check(self)
{
    try_until_settled(1);
    if
    :: verdict == WON -> unlink_all(); unref(self)
    :: verdict == LOST -> unref(self)
    :: else
    fi
}

/* purg_check of key k: walk_take is purg_op_begin_check. */
inline walk_check(self, k)
{
    is_mine = false;
#ifndef BUG_NO_LOCK /* looks at what is linked without the shard's lock */
    lock(k);
#endif
    if
    :: linked[k] ->
       atomic {
           touch();
           if
           :: !done && !checking ->
              checking = true;
              is_mine = true;
#ifndef BUG_NO_REF /* checks without a reference */
              refs++
#endif
           :: !done && checking -> recheck = true
           :: else
           fi
       }
    :: else
    fi;
#ifndef BUG_NO_LOCK
    unlock(k);
#endif
    if
#ifdef BUG_NO_REF
    :: is_mine ->
       try_until_settled(0);
       if
       :: verdict == WON -> refs++; unlink_all(); unref(self)
       :: else
       fi
#else
    :: is_mine -> check(self)
#endif
    :: else
    fi
}

/* purg_cancel_key of key k */
inline walk_cancel(self, k)
{
    is_first = false;
    lock(k);
    if
    :: linked[k] -> begin_end()
    :: else
    fi;
    unlock(k);
    if
    :: is_first -> cancelled = true; finish_end(self)
    :: else
    fi
}

/* purg_op_cancel by the owner: shutdown */
inline owner_cancel()
{
    begin_end();
    if
    :: is_first -> finish_end(OWNER)
    :: else
    fi
}

/* purg_owner_arm */
inline arm()
{
    atomic { touch(); armed = true }
    if
#ifndef BUG_CLOSING /* what is armed after the shutdown began stays */
    :: closing -> owner_cancel()
#endif
    :: else
    fi
}

/* purg_try_complete_else_watch, with purg_op_settle */
inline park(self)
{
    is_complete = state_ready;
    if
    :: is_complete -> answer()
    :: else ->
       atomic { parked = true; parking = true; checking = true; refs = 1 }
       lock(0); linked[0] = true; unlock(0);
       lock(1); linked[1] = true; unlock(1);
       if
       :: self == OWNER -> arm()
       :: else
       fi;
#ifdef BUG_SECOND_TRY /* no look after linking */
       atomic {
           if
           :: done -> verdict = LOST
           :: else -> checking = false; parking = false; recheck = false; refs = refs - (self == OWNER -> 1 : 0); verdict = WAITS
           fi
       }
#else
       try_until_settled((self == OWNER -> 1 : 0));
#endif
       if
       :: verdict == WAITS && self != OWNER ->
#ifdef BUG_INBOX_REF /* the message to the owner is no reference */
          refs--;
#endif
          post()
       :: verdict == WAITS && self == OWNER
#ifdef BUG_PARKING
       :: verdict == LOST -> unref(self)
#else
       :: verdict == LOST -> unlink_all(); unref(self)
#endif
       :: verdict == WON ->
          unlink_all();
          if
          :: self == OWNER -> armed = false
          :: else
          fi;
          answer()
       fi
    fi
}

/* inbox_take, one message */
inline inbox_take()
{
    is_posted = false;
    atomic { touch(); is_over = done && refs == 0 }
    if
    :: is_over -> make_ready()
    :: else ->
       atomic { touch(); is_waiting = parked && !done }
       if
       :: is_waiting -> arm()
       :: else
       fi;
#ifdef BUG_INBOX_REF
       atomic { touch(); is_over = done && refs == 0 }
       if
       :: is_over -> make_ready()
       :: else
       fi
#else
       unref(OWNER)
#endif
    fi
}

#define LOCALS bool is_last, is_first, was_parking, is_mine, is_complete; mtype verdict

/* The owner's thread: parks by choice, then steps and sleeps. */
proctype owner_thread()
{
    LOCALS;
    bool is_over, is_waiting;
    if
    :: is_own -> park(OWNER)
    :: else
    fi;
    do
    :: is_ready ->
       is_ready = false; /* ready_run */
       armed = false;
       answer()
    :: armed && has_deadline ->
       armed = false; /* op_on_due: the wheel takes it out first */
#ifdef BUG_TWICE /* the timeout does not look who was first */
       answer()
#else
       owner_cancel()
#endif
    :: !is_ready && is_posted -> inbox_take()
    :: has_shutdown && !closing ->
       closing = true; /* purg_owner_shutdown */
       if
       :: armed -> armed = false; owner_cancel()
       :: else
       fi
    :: !is_ready && !(armed && has_deadline) && !is_posted && !(has_shutdown && !closing) ->
#ifdef BUG_SLEEP /* what comes between the last look and falling asleep is not seen */
       asleep = true;
#else
       atomic {
           if
           :: is_posted
           :: else -> asleep = true
           fi
       }
#endif
       if
       :: asleep ->
end_asleep:
          (woken || is_ready || (armed && has_deadline) || (has_shutdown && !closing));
          woken = false;
          asleep = false
       :: else
       fi
    od
}

proctype parking_thread()
{
    LOCALS;
    park(NOBODY)
}

proctype event_thread()
{
    LOCALS;
#ifdef BUG_PUBLISH_LATE /* the caller's: tells, then publishes */
    walk_check(NOBODY, 1);
    state_ready = true;
#else
    state_ready = true;
    walk_check(NOBODY, 1);
#endif
    told = true
}

proctype idle_thread()
{
    LOCALS;
    walk_check(NOBODY, 0)
}

proctype cancel_thread()
{
    LOCALS;
    walk_cancel(NOBODY, 0)
}

#define MUST_ANSWER (has_deadline || has_shutdown || has_event || cancelled)

init {
    atomic {
        if :: is_own = true :: is_own = false fi;
#ifdef LIVE /* only the event can answer */
        has_event = true;
#else
        if :: has_deadline = false :: has_deadline = true fi;
        if :: has_shutdown = true :: has_shutdown = false fi;
        if :: has_event = false :: has_event = true fi;
        if :: has_cancel = false :: has_cancel = true fi;
#endif
        run owner_thread();
        if :: !is_own -> run parking_thread() :: else fi;
        if :: has_event -> run event_thread() :: else fi;
        if :: has_cancel -> run cancel_thread() :: else fi;
        run idle_thread()
    }
#ifndef LIVE
    timeout; /* nothing moves any more */
    assert(!MUST_ANSWER || answers == 1) /* [OP-3] */
#endif
}

#ifdef LIVE
ltl answered { [] (told -> <> (answers == 1)) }
#endif
