// Runs the short test at full size.

import "./cluster-faults.test.js";
