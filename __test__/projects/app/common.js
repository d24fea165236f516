const { LockError, formatFence, lock, normalizeAndValidateKey } = require("syncguard/common");

// A backend of one's own needs none either to be looked at, and to be refused.
const helpers = formatFence(7) === "000000000000007" && normalizeAndValidateKey("k") === "k";
lock({}, () => {}, { key: "k" }).catch((error) => {
  console.log("common", helpers && error instanceof LockError);
});
