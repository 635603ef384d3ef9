// An HTTP server that answers after 2 ms, and four clients in the same process, for 3 s.
const http = require("http");
const server = http.createServer((_, answer) => setTimeout(() => answer.end("x".repeat(1000)), 2));
server.listen(0, "127.0.0.1", () => {
  const end = Date.now() + 3000;
  let asking = 4;
  const agent = new http.Agent({ keepAlive: true });
  const ask = () => {
    if (Date.now() > end) return --asking || (agent.destroy(), server.close());
    http.get({ port: server.address().port, host: "127.0.0.1", agent }, (got) => got.resume().on("end", ask));
  };
  for (let client = 0; client < 4; client++) ask();
});
