#!/bin/bash
# One would guess: an editable QComboBox tells by `textActivated` what a person types and confirms with Enter.
# What happens: with `NoInsert`, the policy for a box whose list is to stay as it is, it tells only texts that its list has. Another one
# stays in the line and looks taken, but no signal of the box says so. Nor does it tell a listed text if that row is current by its
# number already, though the line shows another text, as after `setEditText`. Case is ignored: "ndvi" is told as "NDVI".
# What helps: `lineEdit().editingFinished` comes for every text, if `lineEdit().isModified()` is asked first.
# Seen with PyQt6 6.11.0 (PySide6 6.11.0 does the same):
#   typed 'r650 / r550': told []; the line shows 'r650 / r550'
#   typed 'NDVI': told []; the line shows 'NDVI'
#   typed 'gndvi': told ['GNDVI']; the line shows 'GNDVI'
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q pyqt6==6.11.0
cat > "$work/box.py" <<'PY'
from PyQt6.QtCore import Qt
from PyQt6.QtTest import QTest
from PyQt6.QtWidgets import QApplication, QComboBox

application = QApplication([])
box = QComboBox(editable=True, insertPolicy=QComboBox.InsertPolicy.NoInsert)
box.addItems(["NDVI", "GNDVI"])
box.setEditText("r800")
told = []
box.textActivated.connect(told.append)
box.show()
for text in ("r650 / r550", "NDVI", "gndvi"):
    told.clear()
    box.lineEdit().selectAll()
    QTest.keyClicks(box.lineEdit(), text)
    QTest.keyClick(box.lineEdit(), Qt.Key.Key_Return)
    print(f"typed {text!r}: told {told}; the line shows {box.currentText()!r}")
PY
cd "$work"
QT_QPA_PLATFORM=offscreen venv/bin/python box.py | tee seen
cat > expected <<'END'
typed 'r650 / r550': told []; the line shows 'r650 / r550'
typed 'NDVI': told []; the line shows 'NDVI'
typed 'gndvi': told ['GNDVI']; the line shows 'GNDVI'
END
diff expected seen
