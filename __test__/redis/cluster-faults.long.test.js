// The same at full size.

import "./cluster-faults.test.js";
