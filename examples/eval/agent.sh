#!/bin/sh
# Two agents without a model: one mends the code, one changes the test. docs/eval-runners.md says
# what an agent writes.
echo '{"type":"step"}'
case "$1" in
careful) sed -i 's/a - b/a + b/' calc.py ;;
hasty) sed -i 's/== 5/== -1/' test_calc.py ;;
esac
echo '{"type":"command","command":"python3 test_calc.py","exitCode":0}'
echo '{"type":"usage","inputTokens":20,"outputTokens":5}'
echo '{"type":"output","text":"The test passes."}'
