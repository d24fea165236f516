// Stands in for the runtime of AWS Lambda: an execution environment that invokes the handler once for
// each message, one at a time.

const { handler } = await import("../../examples/lambda.mjs");

process.on("message", async ({ event, timeoutMs }) => {
  const endsAt = Date.now() + timeoutMs;
  const context = { getRemainingTimeInMillis: () => endsAt - Date.now() };
  try {
    process.send({ answer: await handler(event, context) });
  } catch ({ name, code }) {
    process.send({ error: { name, code } });
  }
});
process.send("ready");
