// Serves the route handler as Next.js calls it: with a Request, and with the parameters of the path.

import { createServer } from "node:http";
import { POST, runtime } from "../../examples/next-route.mjs";

const server = createServer(async ({ url, method }, response) => {
  const gone = new AbortController();
  response.once("close", () => gone.abort());
  const request = new Request(`http://localhost${url}`, { method, signal: gone.signal });
  const [, id] = /^\/orders\/([^/]+)\/pay/.exec(url);
  try {
    const answer = await POST(request, { params: Promise.resolve({ id }) });
    response.writeHead(answer.status, Object.fromEntries(answer.headers));
    response.end(await answer.text());
  } catch (error) {
    console.log(`failed: ${error.message}`);
    response.writeHead(500).end("{}");
  }
});
server.listen(0, () => console.log(`${runtime} listening on ${server.address().port}`));
