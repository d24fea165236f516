// Runs the short test at full size.

import "./processes.test.js";
