// Each turn runs a shell command, and waits for its end.
const { execSync } = require("node:child_process");
const { readFileSync } = require("node:fs");
const seed = BigInt(process.env.CULPRIT_SEED || 1);
const seconds = 0.15 + Number(seed % 15n) / 100, began = process.hrtime.bigint();
let lost = 0n, times = 0;

while (process.hrtime.bigint() - began < 2000000000n) {
  const at = process.hrtime.bigint();
  execSync(`sleep ${seconds}; :`);
  lost += process.hrtime.bigint() - at;
  times++;
}
const queued = readFileSync("/proc/self/schedstat", "utf8").split(" ")[1];
console.log(`{"ran_ns": ${process.hrtime.bigint() - began}, "lost_ns": ${lost}, "times": ${times}, "queued_ns": ${queued}}`);
