// The metrics. Their names follow the conventions of OpenTelemetry.

const SECONDS = "s";
const FROM_MILLISECONDS_TO_MINUTES = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300,
];

export const METRICS = {
  wait: {
    name: "syncguard.lock.wait.duration",
    description: "How long callers waited for a lock, whether they acquired it or not",
    unit: SECONDS,
    boundaries: FROM_MILLISECONDS_TO_MINUTES,
  },
  hold: {
    name: "syncguard.lock.hold.duration",
    description: "How long locks were held",
    unit: SECONDS,
    boundaries: FROM_MILLISECONDS_TO_MINUTES,
  },
  operation: {
    name: "syncguard.operation.duration",
    description: "How long operations on the backend took",
    unit: SECONDS,
    boundaries: FROM_MILLISECONDS_TO_MINUTES,
  },
  acquisitions: {
    name: "syncguard.lock.acquisitions",
    description: "Acquisitions, including their waits, by outcome",
    unit: "{acquisition}",
  },
  lost: {
    name: "syncguard.lock.lost",
    description: "Locks that were lost while they were still needed",
    unit: "{lock}",
  },
  waiters: {
    name: "syncguard.lock.waiters",
    description: "Callers that are waiting for a lock",
    unit: "{caller}",
  },
};
