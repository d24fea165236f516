//! Each model in thousands of orders of events: at random, and with few switches of threads at the
//! worst places. An order that fails is printed, and can be repeated with `shuttle::replay`.

use syncguard_models::models;

const ORDERS: usize = 5000;
const SWITCHES: usize = 3;

fn in_many_orders(model: fn()) {
    shuttle::check_random(model, ORDERS);
    shuttle::check_pct(model, ORDERS, SWITCHES);
}

#[test]
fn a_ticker_in_use_ticks() {
    in_many_orders(models::a_ticker_in_use_ticks);
}

#[test]
fn every_reply_is_brought() {
    in_many_orders(models::every_reply_is_brought);
}

#[test]
fn a_cancelled_reply_is_never_delivered() {
    in_many_orders(models::a_cancelled_reply_is_never_delivered);
}

#[test]
fn the_end_leaves_no_reply_behind() {
    in_many_orders(models::the_end_leaves_no_reply_behind);
}

#[test]
fn no_wake_up_is_lost() {
    in_many_orders(|| models::no_wake_up_is_lost(false));
    in_many_orders(|| models::no_wake_up_is_lost(true));
}

#[test]
fn no_wake_up_is_lost_in_a_turn() {
    in_many_orders(models::no_wake_up_is_lost_in_a_turn);
}
