/** Returns the interpolated q-quantile (0…1) of numbers. */
export function quantile(values, q) {
  const sorted = Float64Array.from(values).sort();
  const at = (sorted.length - 1) * q;
  const low = Math.floor(at);
  const high = Math.ceil(at);
  return sorted[low] + (sorted[high] - sorted[low]) * (at - low);
}

/** Returns the median and the quartiles over the rounds. */
export function summary(values) {
  return {
    median: quantile(values, 0.5),
    low: quantile(values, 0.25),
    high: quantile(values, 0.75),
  };
}
