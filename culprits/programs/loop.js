// An event loop that a handler blocks: every few turns one computes for long (a hash, a template), and the timers are late.
const { createHash } = require("node:crypto");
const { readFileSync } = require("node:fs");
const seed = BigInt(process.env.CULPRIT_SEED || 1);
const every = 3 + Number(seed % 3n), long = 40 + Number((seed * 7n) % 40n);
const period = 10, began = process.hrtime.bigint();
let turns = 0, lost = 0n, times = 0;

const waited = () => BigInt(readFileSync("/proc/self/schedstat", "utf8").split(" ")[1]);

// What it waits for its CPU meanwhile is no computing.
function block(ms) {
  const queued = waited(), at = process.hrtime.bigint();
  while (process.hrtime.bigint() - at < BigInt(ms) * 1000000n) createHash("sha256").update("x".repeat(20000)).digest();
  lost += process.hrtime.bigint() - at - (waited() - queued);
  times++;
}

const timer = setInterval(() => {
  if (++turns % every === 0) block(long);
  if (process.hrtime.bigint() - began > 2500000000n) {
    clearInterval(timer);
    console.log(`{"ran_ns": ${process.hrtime.bigint() - began}, "lost_ns": ${lost}, "times": ${times}, "turns": ${turns}, "queued_ns": ${waited()}, "period_ms": ${period}}`);
  }
}, period);
