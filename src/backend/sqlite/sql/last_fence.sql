SELECT fence FROM syncguard_fence_counters WHERE fence_key = ?1
