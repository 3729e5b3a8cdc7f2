"""The Lua that grants and takes back budget leases, and the meaning of every field it keeps.

One hash a (budget, window), `wire.BUDGET_KEY`. All amounts are micro-dollars. Nothing is granted before
`base_microusd` is there.

| field | written by | meaning |
|---|---|---|
| `base_microusd` | `telemetry.ingest` | spent in the window by the ledger, in answer to `wire.BUDGET_PRIME_LIST` |
| `m:<spool id>` | `telemetry.ingest` | sequence up to which `base_microusd` contains that spool |
| `run` | script | `run_id` of the Redis process that holds the state |
| `born_ms` | script | when the hash came back after it was lost alone; grants rest for QUARANTINE_MS |
| `asked_ms` | script | when the ledger was last asked for `base_microusd` |
| `pressed_ms` | script | when a request last did not fit: slots give back what they do not use |
| `g:<spool id>` | script | granted to that slot since its lease began, cumulative: spent + held + free |
| `u:<spool id>` | script | spent by that slot, cumulative |
| `h:<spool id>` | script | held by that slot for requests in flight |
| `l:<spool id>` | script | the part of `u` that `base_microusd` already contains |
| `o:<spool id>` | script | number of the slot's last operation |

Invariant: base + sum(g - l) <= limit whenever something was granted, and each slot spends at most its own `g`.

Why retries are safe. A slot is the authority on its own `g`: every call states it and carries a rising operation
number. The same number again gives the same answer; a lower one changes nothing. A grant whose answer was lost is
taken back by the slot's next call, which states the `g` it knows. Only the slot itself spends, so nothing is spent
from a grant it never heard of.

A budget that is overcommitted, because its limit fell or a slot came back after Redis had forgotten its slice, takes
what is free from whoever calls next.

Why a lost Redis is safe. A new `run_id` drops `base` and every `l`; ingest must prime again, and nothing is granted for
QUARANTINE_MS, in which every live slot states its `g` again. A slot's `l` is what of its spend was in the ledger
before the loss, so it never exceeds what the new base holds; once the base is there, its `m` says how much more.
"""

from __future__ import annotations

from typing import Final

QUARANTINE_MS: Final = 1500

RUN_SINCE_KEY: Final = "ace:budget:run"
"""Hash `run`, `since_ms`: since when this Redis process holds the leases."""

PRESSED_KEY: Final = "ace:budget:pressed"
"""Sorted set: budget windows somebody was lately short of, by unix ms. Slots with idle leases look here."""
BUDGET_PREFIX: Final = "ace:budget:"

_RUN: Final = """
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
local since = redis.call('HMGET', RUNKEY, 'run', 'since_ms')
if since[1] ~= run then
  redis.call('HSET', RUNKEY, 'run', run, 'since_ms', now)
  since = {run, now}
end
"""

LEASE: Final = (
    _RUN.replace("RUNKEY", "KEYS[2]")
    + """
local slot, quarantine = ARGV[1], tonumber(ARGV[2])
local settled = now - tonumber(since[2]) >= quarantine
local n = #KEYS - 2
local levels, fits, known = {}, true, true
for i = 1, n do
  local key, a = KEYS[i + 2], 2 + (i - 1) * 9
  local op, g, used, held, led = tonumber(ARGV[a+1]), tonumber(ARGV[a+2]), tonumber(ARGV[a+3]),
    tonumber(ARGV[a+4]), tonumber(ARGV[a+5])
  local limit, min, want = tonumber(ARGV[a+6]), tonumber(ARGV[a+7]), tonumber(ARGV[a+8])
  local was = redis.call('HMGET', key, 'run', 'o:' .. slot, 'g:' .. slot, 'asked_ms')
  local lost = 0
  if was[1] ~= run then
    if was[1] then
      local stale = {}
      for _, f in ipairs(redis.call('HKEYS', key)) do
        local p = string.sub(f, 1, 2)
        if f == 'base_microusd' or p == 'l:' or p == 'm:' then stale[#stale + 1] = f end
      end
      if #stale > 0 then redis.call('HDEL', key, unpack(stale)) end
      lost = 1
    elseif redis.call('EXISTS', 'ace:budget:known:' .. string.sub(key, 12)) == 1 then
      redis.call('HSET', key, 'born_ms', now)
      lost = 1
    end
    redis.call('SET', 'ace:budget:known:' .. string.sub(key, 12), 1)
    if tonumber(ARGV[a+9]) > 0 then
      redis.call('PEXPIREAT', 'ace:budget:known:' .. string.sub(key, 12), ARGV[a+9])
    end
    redis.call('HSET', key, 'run', run)
  end
  if not was[2] and op > 1 then lost = 1 end
  local last = tonumber(was[2] or -1)
  local level = {key = key, op = op, lost = lost, limit = limit, min = min, want = want, again = false,
    last = last, late = op < last, g = g}
  if op == last then
    level.again, level.g = true, tonumber(was[3])
  elseif op < last then
    level.g = tonumber(was[3])
  else
    redis.call('HSET', key, 'o:' .. slot, op, 'g:' .. slot, g, 'u:' .. slot, used, 'h:' .. slot, held,
      'l:' .. slot, led)
  end
  local expire = tonumber(ARGV[a+9])
  if expire > 0 then redis.call('PEXPIREAT', key, expire) end
  local all, granted, spent, holds, base = redis.call('HGETALL', key), 0, 0, 0, nil
  local pressed = 0
  for j = 1, #all, 2 do
    local f, v, p = all[j], all[j + 1], string.sub(all[j], 1, 2)
    if p == 'g:' then granted = granted + v
    elseif p == 'u:' then spent = spent + v
    elseif p == 'h:' then holds = holds + v
    elseif p == 'l:' then granted = granted - v; spent = spent - v
    elseif f == 'base_microusd' then base = tonumber(v)
    elseif f == 'pressed_ms' then pressed = tonumber(v)
    elseif f == 'born_ms' and now - v < quarantine then settled = false end
  end
  if not base then
    known = false
    if now - tonumber(was[4] or 0) > 300 then
      redis.call('HSET', key, 'asked_ms', now)
      redis.call('RPUSH', KEYS[1], string.match(key, '^ace:budget:(.+)$'))
    end
  else
    granted, spent = granted + base, spent + base
  end
  level.left, level.spent, level.holds = limit - granted, spent, holds
  if base and level.left < 0 and not level.again and not level.late then
    local back = math.min(-level.left, math.max(0, g - used - held))
    level.g, level.left = g - back, level.left + back
    redis.call('HSET', key, 'g:' .. slot, string.format('%.0f', level.g))
  end
  level.pressed = now - pressed < 2000
  if level.left < min then fits = false end
  levels[i] = level
end
local out = {}
for i = 1, n do
  local level = levels[i]
  if fits and known and settled and level.want > 0 and not level.again and not level.late then
    local give = math.min(level.left, level.want)
    if not level.pressed then
      give = give + math.floor(math.max(0, level.left - give) / 64)
    end
    give = math.max(give, 0)
    level.g = level.g + give
    redis.call('HSET', level.key, 'g:' .. slot, string.format('%.0f', level.g))
  end
  if fits and known and settled and level.want < 0 and not level.pressed and not level.again and not level.late then
    local give = math.max(0, math.min(-level.want, math.floor(level.left / 64)))
    level.g = level.g + give
    redis.call('HSET', level.key, 'g:' .. slot, string.format('%.0f', level.g))
  end
  if known and level.min > 0 and level.left < level.min and not level.again then
    redis.call('HSET', level.key, 'pressed_ms', now)
    redis.call('ZREMRANGEBYSCORE', 'ace:budget:pressed', '-inf', now - 10000)
    redis.call('ZADD', 'ace:budget:pressed', now, level.key)
    level.pressed = true
  end
  out[#out + 1] = string.format('%.0f', level.g)
  out[#out + 1] = string.format('%.0f', level.spent)
  out[#out + 1] = string.format('%.0f', level.holds)
  out[#out + 1] = level.last
  out[#out + 1] = (level.late and 1 or 0) + (level.lost == 1 and 2 or 0) + (level.pressed and 4 or 0)
    + (known and 8 or 0) + (settled and 16 or 0)
  out[#out + 1] = tonumber(redis.call('HGET', level.key, 'm:' .. slot) or 0)
end
return out
"""
)
"""KEYS prime list, run key, one hash a level. ARGV slot, quarantine ms, then nine a level: operation number,
granted, used, held, ledgered, limit, least needed, wanted (below 0: a slice to stand by, granted out of plenty only),
expiry (unix ms, 0 never). Answer: six a level: granted,
spent by all, held by all, last operation before this one, flags (LATE, LOST, PRESSED, KNOWN, SETTLED),
what of the slot's spool the base contains."""

LATE: Final = 1
LOST: Final = 2
PRESSED: Final = 4
KNOWN: Final = 8
SETTLED: Final = 16
FIELDS_PER_LEVEL: Final = 6
