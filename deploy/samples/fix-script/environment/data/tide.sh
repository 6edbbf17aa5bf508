#!/bin/bash
water='high water 06:12'
ech "$water"
