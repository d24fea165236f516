// Runs the tests of kill.test.js at full size.

import "./kill.test.js";
